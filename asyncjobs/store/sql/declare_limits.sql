-- What a program declares of limits.
SELECT asyncjobs.declare_limits($1::text::jsonb, $2::bigint) AS changed
