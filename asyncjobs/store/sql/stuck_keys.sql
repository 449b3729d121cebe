-- Keys of which nothing moves by itself, by how long that has been so, or ($1) by how much waits: the head died and halted the key, is to run
-- later, or is paused; or the key is. Reads heads, and of each line at most 10,000.
SELECT k.key, k.depth, k.head_id, k.head_type, k.head_status, asyncjobs.instant(k.head_since) AS head_since,
    asyncjobs.instant(k.oldest_at) AS oldest_at, asyncjobs.instant(k.halted_at) AS halted_at, k.halt_reason, asyncjobs.instant(k.paused_at) AS paused_at,
    k.pause_reason, k.runner_id
FROM (
    SELECT d.key, d.since, d.depth FROM (
    SELECT b.key, b.since, (SELECT pg_catalog.count(1) FROM (
            SELECT FROM asyncjobs.serialized_jobs AS w WHERE w.serialization_key = b.key LIMIT 10000) AS l) AS depth
    FROM (
        SELECT s.serialization_key AS key, coalesce(s.halted_at, s.dispatched_at) AS since
        FROM asyncjobs.serialized_jobs AS s JOIN asyncjobs.jobs AS j ON j.id = s.id
        WHERE s.dispatched_at IS NOT NULL AND (s.halted_at IS NOT NULL OR j.status IN ('scheduled', 'failed', 'paused'))
        UNION ALL
        SELECT p.name, p.paused_at FROM asyncjobs.pauses AS p
        WHERE p.kind = 'key' AND EXISTS (SELECT FROM asyncjobs.serialized_jobs AS w WHERE w.serialization_key = p.name)
            AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h WHERE h.serialization_key = p.name AND h.dispatched_at IS NOT NULL)
    ) AS b) AS d
    ORDER BY CASE WHEN $1::boolean THEN d.depth END DESC, d.since LIMIT $2::integer
) AS o
CROSS JOIN LATERAL asyncjobs.list_keys('', 1, o.key) AS k
ORDER BY CASE WHEN $1::boolean THEN o.depth END DESC, o.since;
