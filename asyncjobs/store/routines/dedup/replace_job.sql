-- Give a job that has not started a new payload and time. One that has started stays as it is. The lock of its key (null: it has none) is
-- held: such a job keeps its place in its line, unless its new time is yet to come: then it leaves the line, which goes on without it,
-- and joins it again when it is due. One that was delayed and is due now is left to the promoters, who let it join. One that was
-- ended before it had started, since a caller's transaction enqueued, has been replaced first and ended then: so an operator who retries or
-- requeues it runs what was promised.
CREATE FUNCTION asyncjobs.replace_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamptz,
    _limit_key text) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _waits boolean := false;
    _next bigint;
BEGIN
    IF _key IS NOT NULL THEN  -- before the job's row: one whose place is locked is not dispatched meanwhile
        PERFORM FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.dispatched_at IS NULL FOR UPDATE;
        _waits := FOUND;
    END IF;
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, limit_key = _limit_key, run_at = _due_at, scheduled_at = _due_at,
        start_before = _due_at + (j.start_before - j.scheduled_at), updated_at = _now,
        status = CASE WHEN _due_at > _now THEN 'scheduled'
                      WHEN _key IS NOT NULL THEN j.status
                      WHEN j.status = 'paused' OR asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                      ELSE 'pending' END,
        place = CASE WHEN _key IS NOT NULL OR j.status = 'pending' THEN j.place ELSE nextval('asyncjobs.place_seq') END
    WHERE j.id = _id AND j.serialization_key IS NOT DISTINCT FROM _key AND j.status IN ('waiting', 'scheduled', 'pending', 'paused')
      AND j.attempts = 0 AND j.started_at IS NULL;
    IF NOT FOUND AND _key IS NOT NULL THEN
        PERFORM asyncjobs.replace_ended_job(_id, _key, _payload, _version, _due_at, _limit_key);
        RETURN;
    END IF;
    PERFORM asyncjobs.request_opening(ARRAY[_id], false) WHERE _limit_key IS NOT NULL;
    IF _key IS NULL THEN
        RETURN;
    ELSIF _due_at > _now THEN
        DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id;
        IF FOUND AND NOT _waits THEN
            SELECT d.id INTO _next FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
            PERFORM asyncjobs.tell('f:' || j.queue) FROM asyncjobs.jobs AS j WHERE j.id = _next AND j.status = 'pending';
        END IF;
    END IF;
END $$;
