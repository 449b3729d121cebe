-- What stands between a job and a slot: who serves it, what is paused, how many come before it. At most $2 jobs are counted.
SELECT j.status, j.queue, j.type, j.lane, j.serialization_key, asyncjobs.instant(j.run_at) AS run_at, asyncjobs.instant(j.start_before) AS start_before, j.runner_id,
    asyncjobs.instant(j.started_at) AS started_at, asyncjobs.instant(j.completed_at) AS completed_at,
    j.error_message, j.version, j.losses, j.suspicion, asyncjobs.clock() AS now, s.*,
    (SELECT asyncjobs.instant(pg_catalog.max(t.declared_at)) FROM asyncjobs.types AS t WHERE t.name = j.type) AS declared_at,
    (SELECT t.breaker FROM asyncjobs.types AS t WHERE t.name = j.type ORDER BY t.version DESC, t.declared_at DESC LIMIT 1) AS breaker,
    EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = j.runner_id) AS runner_is_alive,
    (SELECT asyncjobs.instant(o.stopped_at) FROM (
        SELECT r.id, r.stopped_at FROM asyncjobs.runners AS r UNION ALL SELECT f.id, f.stopped_at FROM asyncjobs.former_runners AS f) AS o
     WHERE o.id = j.runner_id) AS runner_stopped_at,
    (SELECT f.is_ahead FROM asyncjobs.in_flight(j.runner_id) AS f WHERE j.status = 'processing' AND f.id = $1::bigint) AS is_ahead,
    (SELECT pg_catalog.count(1) FROM (
        SELECT FROM asyncjobs.jobs AS o WHERE j.status = 'pending' AND j.limit_key IS NULL AND pg_catalog.hashtext(o.queue) = pg_catalog.hashtext(j.queue)
            AND o.queue = j.queue AND o.status = 'pending' AND o.limit_key IS NULL
            AND o.suspicion = 0 AND j.suspicion = 0 AND (o.priority, o.place) < (j.priority, j.place)
        UNION ALL
        SELECT FROM asyncjobs.jobs AS o WHERE j.status = 'pending' AND j.limit_key IS NULL AND pg_catalog.hashtext(o.queue) = pg_catalog.hashtext(j.queue)
            AND o.queue = j.queue AND o.status = 'pending' AND o.limit_key IS NULL
            AND o.suspicion > 0 AND (j.suspicion = 0 OR (o.suspicion, o.priority, o.place) < (j.suspicion, j.priority, j.place))
        LIMIT $2::integer) AS o) AS ahead,
    (SELECT pg_catalog.count(1) FROM asyncjobs.in_flight(NULL) AS o
        WHERE j.status = 'pending' AND o.queue = j.queue AND NOT o.is_ahead) AS running
FROM asyncjobs.jobs AS j
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) AS runners,
        pg_catalog.count(1) FILTER (WHERE j.queue = ANY (r.queues)) AS serving_queue,
        pg_catalog.count(1) FILTER (WHERE j.type = ANY (r.types)) AS serving_type,
        pg_catalog.count(1) FILTER (WHERE j.queue = ANY (r.queues) AND j.type = ANY (r.types)) AS serving,
        pg_catalog.max(coalesce((r.versions ->> j.type)::integer, 1)) FILTER (WHERE j.queue = ANY (r.queues) AND j.type = ANY (r.types))
            AS newest_version
    FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL) AS s
WHERE j.id = $1::bigint;
