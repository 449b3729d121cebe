-- Jobs that stand still, by why. 'starved': queues all of whose general slots are held, for longer than $1 seconds, by jobs
-- whose own children wait for a slot there. 'paused': those that an operator's SQL has set to `paused`, by type; at most $2 rows are looked
-- at. And workflows: 'cancelling' for more than $3 seconds; 'broken' in the last $4 seconds, how many and the newest of them. And 'sequence':
-- one that stands behind its rows, where it is and what they have reached.
(SELECT 'starved' AS why, w.queue AS name, w.parents AS count, w.slots, NULL::bigint AS id, NULL::float8 AS seconds FROM (
    SELECT p.queue, pg_catalog.count(1) AS parents, (SELECT pg_catalog.sum((r.slots -> p.queue ->> '')::integer) FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL) AS slots
    FROM asyncjobs.jobs AS p
    WHERE p.runner_id IS NOT NULL AND p.status = 'processing'
        AND p.started_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $1::float8)
        AND EXISTS (SELECT FROM asyncjobs.jobs AS c WHERE c.parent_job_id = p.id AND c.queue = p.queue AND c.status = 'pending')
    GROUP BY p.queue) AS w
WHERE w.parents >= w.slots ORDER BY w.queue)
UNION ALL
(SELECT 'paused', p.type, pg_catalog.count(1), NULL, NULL, NULL FROM (
    SELECT j.type, j.version, j.serialization_key FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT $2::integer) AS p
WHERE NOT EXISTS (SELECT FROM asyncjobs.holds AS h
    WHERE (h.name = p.type AND (h.kind = 'type' OR (h.kind = 'unserved' AND h.version = p.version)))
       OR (h.kind = 'key' AND h.name = p.serialization_key))
GROUP BY p.type ORDER BY p.type)
UNION ALL
(SELECT 'cancelling', w.name, g.missing, NULL, w.id, extract(epoch FROM asyncjobs.clock() - asyncjobs.instant(w.cancel_requested_at))::float8
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
WHERE w.ended_at IS NULL AND w.cancel_requested_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $3::float8) ORDER BY w.id LIMIT 10)
UNION ALL
(SELECT 'broken', w.name, pg_catalog.count(1) OVER (), NULL, w.id, extract(epoch FROM asyncjobs.clock() - asyncjobs.instant(w.ended_at))::float8
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
WHERE w.ended_at > asyncjobs.clock() - pg_catalog.make_interval(secs => $4::float8) AND g.dead > 0 AND w.cancel_requested_at IS NULL
ORDER BY w.ended_at DESC LIMIT 1)
UNION ALL
(SELECT 'sequence', b.name, b.last_value, NULL, b.reached, NULL FROM asyncjobs.sequences_behind() AS b ORDER BY b.name);
