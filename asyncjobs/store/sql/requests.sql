-- What was asked for of the jobs that this runner runs.
SELECT r.id, r.token, r.wanted, r.message FROM asyncjobs.requests($1::bigint) AS r;
