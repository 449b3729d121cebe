-- The gates that a fold of so many would see to: for which of them is refused.
SELECT asyncjobs.left_over_gates($1::integer, $2::bigint[]) AS gates;
