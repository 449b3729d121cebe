-- What a program declares of limits.
SELECT asyncjobs.declare_limits($1::text::jsonb) AS changed
