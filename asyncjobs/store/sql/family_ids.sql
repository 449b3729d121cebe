-- The first $2 jobs that job $1 enqueued, those that wait for their key among them.
SELECT c.id FROM (
    SELECT j.id FROM asyncjobs.jobs AS j WHERE j.parent_job_id = $1::bigint
    UNION
    SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.parent_job_id = $1::bigint AND s.job_id IS NULL
) AS c
ORDER BY c.id LIMIT $2::integer;
