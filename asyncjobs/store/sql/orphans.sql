-- The jobs that a `rescue` of so many would look at: for which of them is refused.
SELECT o.id FROM asyncjobs.orphans($1::integer + cardinality($2::bigint[])) AS o WHERE o.id <> ALL ($2::bigint[]) ORDER BY o.id LIMIT $1::integer;
