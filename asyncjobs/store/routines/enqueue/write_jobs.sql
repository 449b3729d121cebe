-- The one INSERT of jobs: those that have an id here. One with a key that is due waits for its turn in its line: with a place, if `_own`
-- (the key's lock is held), else it joins at the commit. Returns how many were written: an id that is there already is passed over.
CREATE FUNCTION asyncjobs.write_jobs(_ids bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _own boolean, _now timestamptz) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _written integer;
BEGIN
    WITH written AS (
        INSERT INTO asyncjobs.jobs AS j (id, enqueue_token, type, queue, lane, version, payload, priority, max_attempts, timeout,
            correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, requeued_from, trace_context, tags,
            scheduled_at, run_at, start_before, dedup_until, workflow_id, limit_key, keep_payload, status, created_at, updated_at)
        SELECT r.id, r.token, r.type, r.queue, r.lane, coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100),
            coalesce(r.max_attempts, 3), make_interval(secs => r.timeout_seconds), r.correlation_id, r.parent_job_id, r.created_by,
            r.dedup_key, r.serialization_key, coalesce(r.on_dead, 'advance'), r.requeued_from, r.trace_context, r.tags,
            d.due_at, d.due_at, d.due_at + make_interval(secs => r.expires_seconds), nullif(r.dedup_until, 'end'), r.workflow_id, r.limit_key, r.keep_payload,
            CASE WHEN r.waits THEN 'blocked'
                 WHEN d.due_at > _now THEN 'scheduled'
                 WHEN r.serialization_key IS NOT NULL THEN 'waiting'
                 WHEN _any_paused AND asyncjobs.is_paused(r.type, NULL) THEN 'paused'
                 ELSE 'pending' END, _now, _now
        FROM ROWS FROM (unnest(_ids), unnest(_tokens), unnest(_rows)) AS r(id, token)
        CROSS JOIN LATERAL (SELECT coalesce(r.run_at, _now + make_interval(secs => r.delay_seconds), _now) AS due_at) AS d
        WHERE r.id IS NOT NULL
        ON CONFLICT (id) DO NOTHING
        RETURNING j.id, j.place, j.serialization_key, j.status = 'waiting' AS waits),
    joining AS (
        INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key)
        SELECT w.id, CASE WHEN _own THEN w.place END, w.serialization_key FROM written AS w WHERE w.waits)
    SELECT count(1) INTO _written FROM written AS w;
    RETURN _written;
END $$;
