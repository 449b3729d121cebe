-- The first $2 jobs of a correlation id.
SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = $1::text ORDER BY j.id LIMIT $2::integer;
