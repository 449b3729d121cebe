-- The first $2 jobs of a correlation id, those that wait for their key among them.
SELECT c.id FROM (
    SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = $1::text
    UNION
    SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.correlation_id = $1::text AND s.job_id IS NULL
) AS c
ORDER BY c.id LIMIT $2::integer;
