-- The line of a key in its order: ids, types and since when they wait.
SELECT s.id, s.type, asyncjobs.instant(s.created_at) AS created_at, s.job_id IS NOT NULL AS dispatched FROM asyncjobs.serialized_jobs AS s
WHERE s.serialization_key = $1::text ORDER BY s.job_id IS NULL, s.place LIMIT $2::integer;
