-- Change a job that has not ended and does not run: `_changes` has what is to be other (`run_at`, or `delay` from now on; a `timeout` of null
-- is none). A job of another queue leaves its lane behind, unless one is named. The rules of time:
--   due now      what was delayed, or waits for its retry, becomes pending; one with a key is left to the promoters, which let it join its
--                line; one that waits in its line keeps its place
--   due later    it is scheduled (a retry stays one, and keeps its key); out of its line, which goes on without it
-- The order of locks: routines/keys. A row that an operator or a pause holds stays held, and as old as it was (`holds`).
CREATE FUNCTION asyncjobs.change_job(_id bigint, _changes jsonb, OUT outcome text, OUT was text, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _due timestamptz := coalesce((_changes ->> 'run_at')::timestamptz, _now + make_interval(secs => (_changes ->> 'delay')::float8));
    _is_later boolean := coalesce(_due > _now, false);
    _key text;
    _heads bigint[];
BEGIN
    SELECT w.status, w.serialization_key INTO was, _key FROM asyncjobs.status_in_line(_id) AS w;
    outcome := CASE WHEN was IS NULL THEN 'unknown' WHEN was IN ('completed', 'dead', 'cancelled') THEN 'final'
                    WHEN was = 'processing' THEN was END;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;
    IF was = 'waiting' THEN
        PERFORM asyncjobs.lock_keys(ARRAY[_key]);
        PERFORM FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.dispatched_at IS NULL FOR UPDATE;
        IF NOT FOUND THEN  -- its row is not waited for with the key in hand
            outcome := 'again';
            RETURN;
        END IF;
    END IF;
    PERFORM FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
    IF (SELECT w.status FROM asyncjobs.status_in_line(_id) AS w) IS DISTINCT FROM was THEN
        outcome := 'again';
        RETURN;
    END IF;
    IF was <> 'waiting' AND _key IS NOT NULL AND _is_later THEN
        PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    END IF;
    UPDATE asyncjobs.jobs AS j
    SET priority = coalesce((_changes ->> 'priority')::smallint, j.priority), queue = coalesce(_changes ->> 'queue', j.queue),
        lane = CASE WHEN _changes ? 'lane' THEN _changes ->> 'lane'
                    WHEN _changes ->> 'queue' <> j.queue THEN NULL ELSE j.lane END,
        max_attempts = coalesce((_changes ->> 'max_attempts')::integer, j.max_attempts),
        timeout = CASE WHEN _changes ? 'timeout' THEN make_interval(secs => (_changes ->> 'timeout')::float8) ELSE j.timeout END,
        start_before = CASE WHEN _due IS NULL THEN j.start_before WHEN was <> 'failed' THEN _due + (j.start_before - j.scheduled_at) END,
        run_at = coalesce(_due, j.run_at), scheduled_at = CASE WHEN was = 'failed' THEN j.scheduled_at ELSE coalesce(_due, j.scheduled_at) END,
        status = CASE WHEN was = 'blocked' THEN was
                      WHEN _is_later AND was <> 'failed' THEN 'scheduled'
                      WHEN _due IS NULL OR _is_later OR _key IS NOT NULL OR was NOT IN ('scheduled', 'failed') THEN j.status
                      WHEN asyncjobs.is_paused(j.type, NULL) THEN 'paused' ELSE 'pending' END,
        place = CASE WHEN _due <= _now AND _key IS NULL AND was IN ('scheduled', 'failed') THEN nextval('asyncjobs.place_seq') ELSE j.place END,
        updated_at = CASE WHEN was = 'paused' THEN j.updated_at ELSE _now END
    WHERE j.id = _id;
    IF _is_later AND _key IS NOT NULL AND was <> 'failed' THEN
        DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id;
        IF FOUND THEN
            SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
        END IF;
    END IF;
    PERFORM asyncjobs.request_opening(ARRAY[_id], false);
    outcome := 'changed';
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE (j.id = _id OR j.id = ANY (_heads)) AND j.status = 'pending');
END $$;
