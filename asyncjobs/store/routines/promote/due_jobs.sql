-- What something is to happen to by itself: jobs that are scheduled, or to be retried, and those that wait and expire. The index `jobs_due`
-- has them in the order of `due_at`.
CREATE VIEW asyncjobs.due_jobs AS
SELECT j.id, j.status, j.serialization_key, j.start_before, asyncjobs.due_at(j.status, j.run_at, j.start_before) AS due_at
FROM asyncjobs.jobs AS j
WHERE j.status = ANY ('{scheduled,failed}'::text[]) OR (j.start_before IS NOT NULL AND j.status = ANY ('{waiting,pending,paused}'::text[]));
