-- These jobs, the highest id first.
SELECT j.* FROM asyncjobs.readable_jobs AS j WHERE j.id = ANY ($1::bigint[]) ORDER BY j.id DESC;
