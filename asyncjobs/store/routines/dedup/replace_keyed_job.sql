-- The same for a job with a serialization key, whose lock is held. It keeps its place in its line, unless its new time is yet to
-- come: then it leaves the line, which goes on without it, and joins it again when it is due. A job that was delayed and is due now
-- is left to the promoters, who let it join. One that was ended before it had started, since a caller's transaction enqueued, has been
-- replaced first and ended then: so whoever retries or requeues it runs what was promised.
CREATE FUNCTION asyncjobs.replace_keyed_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _waits boolean;
    _has_row boolean;
    _next bigint;
BEGIN
    -- In this order: a waiting row that is locked is not dispatched meanwhile; one that was is seen by the next statement.
    -- One that has started, and was put back into the line by an operator's retry, stays as it is.
    UPDATE asyncjobs.serialized_jobs AS s SET payload = _payload::jsonb, version = _version, scheduled_at = _due_at
    WHERE s.id = _id AND s.job_id IS NULL
      AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = _id AND (j.attempts > 0 OR j.started_at IS NOT NULL));
    _waits := FOUND;
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, run_at = _due_at, scheduled_at = _due_at, updated_at = _now,
        status = CASE WHEN _due_at > _now THEN 'scheduled' ELSE j.status END
    WHERE j.id = _id AND j.status IN ('waiting', 'scheduled', 'pending', 'paused') AND j.attempts = 0 AND j.started_at IS NULL;
    _has_row := FOUND;
    IF NOT (_waits OR _has_row) THEN
        PERFORM asyncjobs.replace_ended_job(_id, _key, _payload, _version, _due_at);
        RETURN;
    END IF;
    IF _due_at <= _now THEN
        RETURN;
    END IF;
    IF NOT _has_row THEN
        INSERT INTO asyncjobs.jobs (id, queue, lane, type, version, payload, priority, max_attempts, timeout, scheduled_at, run_at,
            correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, enqueue_token, requeued_from,
            trace_context, created_at, status)
        SELECT s.id, s.queue, s.lane, s.type, s.version, s.payload, s.priority, s.max_attempts, s.timeout, _due_at, _due_at,
            s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, s.on_dead, s.enqueue_token,
            s.requeued_from, s.trace_context, s.created_at, 'scheduled'
        FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id;
    END IF;
    DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id;
    IF FOUND AND NOT _waits THEN
        SELECT d.id INTO _next FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
        PERFORM asyncjobs.tell('q:' || j.queue) FROM asyncjobs.jobs AS j WHERE j.id = _next AND j.status = 'pending';
    END IF;
END $$;
