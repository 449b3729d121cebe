-- The first $2 jobs that job $1 enqueued.
SELECT j.id FROM asyncjobs.jobs AS j WHERE j.parent_job_id = $1::bigint ORDER BY j.id LIMIT $2::integer;
