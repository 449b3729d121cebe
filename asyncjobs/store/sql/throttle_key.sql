-- Close the limit key of a job that runs.
SELECT asyncjobs.throttle_key($1::bigint, $2::bigint, $3::float8) AS is_closed
