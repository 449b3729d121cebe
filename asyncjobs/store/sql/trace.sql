-- The jobs of a correlation id. (A job that was given none has its own.)
SELECT j.* FROM asyncjobs.readable_jobs AS j
WHERE j.id = ANY (ARRAY(
    SELECT t.id FROM (
        SELECT r.id, r.created_at FROM asyncjobs.jobs AS r WHERE r.correlation_id = $1::text
        UNION ALL
        SELECT r.id, r.created_at FROM asyncjobs.jobs AS r WHERE r.id = asyncjobs.traced_job($1::text) AND r.correlation_id IS NULL) AS t
    ORDER BY t.created_at, t.id LIMIT $2::integer))
ORDER BY j.created_at, j.id;
