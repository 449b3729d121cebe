-- Every duty that was ever held under a lease, with its holder's host and process while that is known.
SELECT l.job_name, nullif(l.held_by_worker_id, 'none')::bigint AS runner_id, r.host, r.pid, l.lease_acquired_at, l.heartbeat_at,
    (l.metadata ->> 'last_run')::timestamptz AS last_run_at, (l.metadata ->> 'last_pass_at')::timestamptz AS last_pass_at,
    (l.metadata ->> 'items')::bigint AS items, (l.metadata ->> 'errors')::bigint AS errors,
    (l.metadata ->> 'duration')::float8 AS duration_seconds
FROM asyncjobs.background_job_leases AS l LEFT JOIN asyncjobs.runners AS r ON r.id::text = l.held_by_worker_id
ORDER BY l.job_name
