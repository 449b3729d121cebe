-- Keys of limits that are closed though they should not be.
SELECT s.reached, s.requested FROM asyncjobs.sweep_limits($1::text, $2::integer) AS s
