-- The jobs of a correlation id.
SELECT j.* FROM asyncjobs.readable_jobs AS j WHERE j.correlation_id = $1::text ORDER BY j.created_at, j.id LIMIT $2::integer;
