-- Dead letters that nobody has acknowledged, by type and kind of error, the most frequent first: of the last $4 that died.
SELECT g.type, g.kind, pg_catalog.count(1) AS count, asyncjobs.instant(pg_catalog.min(g.died_at)) AS first_at,
    asyncjobs.instant(pg_catalog.max(g.died_at)) AS last_at, pg_catalog.max(g.id) AS last_id
FROM (
    SELECT d.id, d.died_at, coalesce(d.original_job ->> 'type', '?') AS type, asyncjobs.error_kind(d.error_message) AS kind
    FROM asyncjobs.dead_letter_jobs AS d
    WHERE NOT d.acknowledged AND ($2::timestamptz IS NULL OR d.died_at >= $2::timestamptz)
        AND ($3::timestamptz IS NULL OR d.died_at < $3::timestamptz)
    ORDER BY d.died_at DESC LIMIT $4::integer) AS g
WHERE $1::text IS NULL OR g.type = $1::text
GROUP BY g.type, g.kind ORDER BY count DESC, last_at DESC, g.type, g.kind LIMIT $5::integer
