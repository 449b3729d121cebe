-- What fills the limit key of a job, and until when it is closed; and the total of its queue.
SELECT j.limit_key, l.each, l.total, asyncjobs.running_of(asyncjobs.limit_name(j.limit_key), 2147483647) AS running_of_limit,
    (SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS r
     WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = j.limit_key AND r.runner_id IS NOT NULL) AS running,
    ARRAY(SELECT r.id FROM asyncjobs.jobs AS r
     WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = j.limit_key AND r.runner_id IS NOT NULL ORDER BY r.id LIMIT 5) AS ids,
    (SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS o
     WHERE asyncjobs.limit_side(o.status) = 0 AND o.limit_key = j.limit_key AND o.queue = j.queue AND o.status = 'pending'
       AND (o.suspicion, o.priority, o.place) < (j.suspicion, j.priority, j.place)) AS ahead,
    CASE WHEN o.opens_at > asyncjobs.moment() THEN asyncjobs.instant(o.opens_at) END AS opens_at,
    CASE WHEN k.closed_until > asyncjobs.moment() THEN k.closed_by END AS closed_by,
    q.total AS queue_total, CASE WHEN q.total IS NOT NULL THEN (
        SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS r WHERE r.runner_id IS NOT NULL AND r.queue = j.queue) END AS running_in_queue
FROM asyncjobs.jobs AS j
LEFT JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(j.limit_key)
LEFT JOIN asyncjobs.limits AS q ON q.kind = 'queue' AND q.name = j.queue
LEFT JOIN asyncjobs.limit_keys AS k ON k.key = j.limit_key
CROSS JOIN LATERAL (SELECT asyncjobs.key_opens_at(k, l.every, l.burst, asyncjobs.moment()) AS opens_at) AS o
WHERE j.id = $1::bigint AND j.status = 'pending' AND (j.limit_key IS NOT NULL OR q.total IS NOT NULL)
