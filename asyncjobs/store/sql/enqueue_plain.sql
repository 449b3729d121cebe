-- Enqueue rows that wait for no lock (no dedup key, no serialization key), for the first time: one list of JSON. ON CONFLICT is left to the
-- next try. By the function for rows of all kinds a row took 9.2 us of the server's time instead of 5.2 (of 100), a single one 160 instead of 65.
WITH written AS (
    INSERT INTO asyncjobs.jobs (id, enqueue_token, type, queue, lane, version, payload, priority, max_attempts, timeout,
        correlation_id, parent_job_id, created_by, on_dead, trace_context, tags, scheduled_at, run_at, start_before, keep_payload, status)
    SELECT r.id, r.token, r.type, r.queue, r.lane, coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100),
        coalesce(r.max_attempts, 3), pg_catalog.make_interval(secs => r.timeout_seconds), r.correlation_id, r.parent_job_id, r.created_by,
        coalesce(r.on_dead, 'advance'), r.trace_context, r.tags, d.due_at, d.due_at,
        d.due_at + pg_catalog.make_interval(secs => r.expires_seconds), r.keep_payload,
        CASE WHEN d.due_at > asyncjobs.clock() THEN 'scheduled'
             WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused(r.type, NULL) THEN 'paused'
             ELSE 'pending' END
    FROM ROWS FROM (unnest($1::bigint[]), unnest($2::bigint[]), pg_catalog.jsonb_populate_recordset(NULL::asyncjobs.new_job, $3::text::jsonb))
        AS r(id, token)
    CROSS JOIN LATERAL (SELECT coalesce(r.run_at, asyncjobs.clock() + pg_catalog.make_interval(secs => r.delay_seconds),
        asyncjobs.clock()) AS due_at) AS d
    RETURNING run_at > asyncjobs.clock() AS is_later)
SELECT ARRAY(SELECT pg_catalog.nextval('asyncjobs.jobs_id_seq') FROM pg_catalog.generate_series(1, $4::integer)) AS reserved,
    (SELECT pg_catalog.array_agg(w.is_later) FROM written AS w) AS later
