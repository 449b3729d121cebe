-- Queues all of whose general slots are held, for longer than $1 seconds, by jobs whose own children wait for a slot there.
SELECT w.queue, w.parents, w.slots FROM (
    SELECT p.queue, pg_catalog.count(1) AS parents, (SELECT pg_catalog.sum((r.slots -> p.queue ->> '')::integer) FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL) AS slots
    FROM asyncjobs.jobs AS p
    WHERE p.runner_id IS NOT NULL AND p.status = 'processing'
        AND p.started_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $1::float8)
        AND EXISTS (SELECT FROM asyncjobs.jobs AS c WHERE c.parent_job_id = p.id AND c.queue = p.queue AND c.status = 'pending')
    GROUP BY p.queue) AS w
WHERE w.parents >= w.slots ORDER BY w.queue
