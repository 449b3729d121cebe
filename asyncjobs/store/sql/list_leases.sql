-- Every duty that was ever held under a lease, with its holder's host and process while that is known.
SELECT l.job_name, CASE WHEN l.held_by_worker_id ~ '^[0-9]{1,18}$' THEN l.held_by_worker_id::bigint ELSE r.id END AS runner_id, r.host, r.pid,
    asyncjobs.instant(l.lease_acquired_at) AS lease_acquired_at, asyncjobs.instant(l.heartbeat_at) AS heartbeat_at,
    asyncjobs.read_instant(l.metadata ->> 'last_run') AS last_run_at, asyncjobs.read_instant(l.metadata ->> 'last_pass_at') AS last_pass_at,
    asyncjobs.read_number(l.metadata ->> 'items')::bigint AS items, asyncjobs.read_number(l.metadata ->> 'errors')::bigint AS errors,
    asyncjobs.read_number(l.metadata ->> 'duration') AS duration_seconds,
    asyncjobs.read_number(l.metadata ->> 'failures')::bigint AS failures
FROM asyncjobs.background_job_leases AS l LEFT JOIN asyncjobs.runners AS r ON r.id::text = l.held_by_worker_id
ORDER BY l.job_name
