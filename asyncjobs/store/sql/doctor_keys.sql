-- Keys whose line stands still, by why: dead heads at once, later and held ones after $1 seconds, those of lost runners after $2; with the
-- key that waits longest. A head that keeps no job waiting blocks nothing, unless it is dead. Reads heads, not the lines behind them.
SELECT b.blocked_by AS by, pg_catalog.count(1) AS count, (pg_catalog.array_agg(b.key ORDER BY b.since))[1] AS key,
    (pg_catalog.array_agg(b.head_id ORDER BY b.since))[1] AS head_id,
    extract(epoch FROM asyncjobs.clock() - asyncjobs.instant(pg_catalog.min(b.since)))::float8 AS age_seconds
FROM (
    SELECT h.key, h.head_id, h.blocked_by, CASE WHEN h.blocked_by = 'owner' THEN h.owner_since ELSE h.since END AS since
    FROM (
        SELECT s.serialization_key AS key, s.id AS head_id, coalesce(s.halted_at, s.dispatched_at) AS since,
            coalesce(r.beat_at, (SELECT pg_catalog.max(f.ended_at) FROM asyncjobs.former_runners AS f WHERE f.id = j.runner_id),
                j.started_at) AS owner_since,
            CASE WHEN s.halted_at IS NOT NULL THEN 'dead' WHEN j.status IN ('scheduled', 'failed') THEN 'later'
                WHEN j.status = 'paused' THEN 'paused' WHEN j.status = 'processing' THEN 'owner' END AS blocked_by,
            EXISTS (SELECT FROM asyncjobs.serialized_jobs AS w
                WHERE w.serialization_key = s.serialization_key AND w.dispatched_at IS NULL) AS is_waited_for
        FROM asyncjobs.serialized_jobs AS s JOIN asyncjobs.jobs AS j ON j.id = s.id
            LEFT JOIN asyncjobs.runners AS r ON r.id = j.runner_id
        WHERE s.dispatched_at IS NOT NULL
    ) AS h
    WHERE h.blocked_by = 'dead' OR h.is_waited_for
    UNION ALL
    SELECT p.name, NULL, 'paused', p.paused_at FROM asyncjobs.pauses AS p
    WHERE p.kind = 'key' AND EXISTS (SELECT FROM asyncjobs.serialized_jobs AS w WHERE w.serialization_key = p.name)
        AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS w WHERE w.serialization_key = p.name AND w.dispatched_at IS NOT NULL)
) AS b
WHERE b.blocked_by = 'dead'
    OR b.since < asyncjobs.clock() - pg_catalog.make_interval(secs => CASE b.blocked_by WHEN 'owner' THEN $2::float8 ELSE $1::float8 END)
GROUP BY b.blocked_by ORDER BY b.blocked_by
