-- Run a job again, or now: one that is not due becomes due, one that is dead or cancelled starts over with all its attempts. A job
-- that still has its key (it halted it, or is to be retried) keeps its place; one whose key has moved on goes to the end of the line.
CREATE FUNCTION asyncjobs.retry_job(_id bigint, _by text, OUT outcome text, OUT was text, OUT other_id bigint, OUT queues text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _type text;
    _dedup text;
    _job asyncjobs.jobs;
    _heads bigint[];
BEGIN
    SELECT j.type, j.dedup_key, j.status INTO _type, _dedup, was FROM asyncjobs.jobs AS j WHERE j.id = _id;
    IF NOT FOUND THEN
        outcome := 'unknown';
        RETURN;
    END IF;
    IF was IN ('dead', 'cancelled') THEN
        SELECT m.outcome, m.other_id INTO outcome, other_id FROM asyncjobs.may_start_over(_id, was, _type, _dedup) AS m;
        IF outcome IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    SELECT j.id, j.status, j.serialization_key, j.queue INTO _job.id, _job.status, _job.serialization_key, _job.queue
    FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
    IF _job.status IS DISTINCT FROM was THEN
        RAISE EXCEPTION 'job % moved on', _id USING ERRCODE = 'serialization_failure';  -- called once more; the dedup key is as before
    END IF;
    IF was NOT IN ('scheduled', 'failed', 'dead', 'cancelled') THEN
        outcome := CASE WHEN was = 'completed' THEN 'final' ELSE was END;
        RETURN;
    END IF;
    PERFORM asyncjobs.lock_keys(array_remove(ARRAY[_job.serialization_key], NULL));  -- before the dead letters, as a requeue does
    UPDATE asyncjobs.jobs AS j SET start_before = NULL WHERE j.id = _id AND j.start_before IS NOT NULL;
    IF was IN ('dead', 'cancelled') THEN
        PERFORM asyncjobs.start_over(_id, _by);
        IF asyncjobs.take_back(_id) THEN
            outcome := 'retried';
            RETURN;
        END IF;
    END IF;
    IF _job.serialization_key IS NOT NULL THEN
        UPDATE asyncjobs.serialized_jobs AS s SET halted_at = NULL, halt_reason = NULL WHERE s.id = _id AND s.dispatched_at IS NOT NULL;
        IF NOT FOUND THEN
            PERFORM asyncjobs.join_line(ARRAY[_id], ARRAY[_job.serialization_key]);
            SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_job.serialization_key]) AS d;
            queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
            outcome := 'retried';
            RETURN;
        END IF;
    END IF;
    UPDATE asyncjobs.jobs AS j
    SET status = CASE WHEN asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused' ELSE 'pending' END,
        run_at = _now, place = nextval('asyncjobs.place_seq'), updated_at = _now
    WHERE j.id = _id;
    PERFORM asyncjobs.request_opening(ARRAY[_id], false);
    outcome := 'retried';
    queues := ARRAY[_job.queue];
END $$;
