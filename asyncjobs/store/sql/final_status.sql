-- Whether a job is there, and whether it ended: what a waiter polls.
SELECT j.status FROM asyncjobs.jobs AS j WHERE j.id = $1
UNION ALL
SELECT 'waiting' FROM asyncjobs.serialized_jobs AS s WHERE s.id = $1 AND s.job_id IS NULL;
