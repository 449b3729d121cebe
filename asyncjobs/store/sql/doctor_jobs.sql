-- Jobs that stand still, by why. 'starved': queues all of whose general slots are held, for longer than $1 seconds, by jobs
-- whose own children wait for a slot there. 'paused': those that an operator's SQL has set to `paused`, by type; at most $2 rows are looked at.
(SELECT 'starved' AS why, w.queue AS name, w.parents AS count, w.slots FROM (
    SELECT p.queue, pg_catalog.count(1) AS parents, (SELECT pg_catalog.sum((r.slots -> p.queue ->> '')::integer) FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL) AS slots
    FROM asyncjobs.jobs AS p
    WHERE p.runner_id IS NOT NULL AND p.status = 'processing'
        AND p.started_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $1::float8)
        AND EXISTS (SELECT FROM asyncjobs.jobs AS c WHERE c.parent_job_id = p.id AND c.queue = p.queue AND c.status = 'pending')
    GROUP BY p.queue) AS w
WHERE w.parents >= w.slots ORDER BY w.queue)
UNION ALL
(SELECT 'paused', p.type, pg_catalog.count(1), NULL FROM (
    SELECT j.type, j.version, j.serialization_key FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT $2::integer) AS p
WHERE NOT EXISTS (SELECT FROM asyncjobs.holds AS h
    WHERE (h.name = p.type AND (h.kind = 'type' OR (h.kind = 'unserved' AND h.version = p.version)))
       OR (h.kind = 'key' AND h.name = p.serialization_key))
GROUP BY p.type ORDER BY p.type)
