-- The line of a key in its order: ids, types and since when they are there.
SELECT s.id, coalesce(j.type, '?') AS type, asyncjobs.instant(coalesce(j.created_at, asyncjobs.clock())) AS created_at, s.dispatched_at IS NOT NULL AS dispatched
FROM (SELECT l.id, l.place, l.dispatched_at FROM asyncjobs.serialized_jobs AS l
      WHERE l.serialization_key = $1::text ORDER BY l.dispatched_at IS NULL, l.place LIMIT $2::integer) AS s
LEFT JOIN asyncjobs.jobs AS j ON j.id = s.id ORDER BY s.dispatched_at IS NULL, s.place;
