-- Enqueue a row that waits for nobody (no dedup key, no serialization key), for the first time; returns an id for the next one.
-- By the function for rows of all kinds it took 400 us of the server's time, so 320: there settings, statements and arrays of one
-- element cost more than the row.
INSERT INTO asyncjobs.jobs (id, enqueue_token, type, queue, lane, version, payload, priority, max_attempts, timeout, correlation_id,
    parent_job_id, created_by, on_dead, trace_context, scheduled_at, run_at, status)
VALUES ($1, $2, $3::text, $4, $5, $6, $7::text::jsonb, $8, $9, pg_catalog.make_interval(secs => $10), $11, $12, $13, $14, $15,
    coalesce($16::timestamptz, asyncjobs.clock() + pg_catalog.make_interval(secs => $17::float8), asyncjobs.clock()),
    coalesce($16::timestamptz, asyncjobs.clock() + pg_catalog.make_interval(secs => $17::float8), asyncjobs.clock()),
    CASE WHEN coalesce($16::timestamptz, asyncjobs.clock() + pg_catalog.make_interval(secs => $17::float8)) > asyncjobs.clock()
              THEN 'scheduled'
         WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused($3::text, NULL) THEN 'paused'
         ELSE 'pending' END)
RETURNING pg_catalog.nextval('asyncjobs.jobs_id_seq') AS reserved, run_at <= asyncjobs.clock() AS is_due
