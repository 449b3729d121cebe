-- The first $2 jobs of a correlation id. (A job that was given none has its own.)
SELECT t.id FROM (
    SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = $1::text
    UNION ALL
    SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = asyncjobs.traced_job($1::text) AND j.correlation_id IS NULL) AS t
ORDER BY t.id LIMIT $2::integer;
