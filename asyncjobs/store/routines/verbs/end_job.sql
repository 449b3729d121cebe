-- End a job: 'cancel', or 'dead' (with a dead letter). Or 'fail' the attempt that runs, to be retried while it has attempts left. One
-- that runs is asked to end; its key is let go when its handler has ended. The row in `jobs` of one that waits is not locked: whoever
-- dispatches it has the row of `serialized_jobs` first.
CREATE FUNCTION asyncjobs.end_job(
    _id bigint, _request text, _message text, _max_errors integer, OUT outcome text, OUT was text, OUT queues text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text := CASE _request WHEN 'cancel' THEN 'cancelled' ELSE 'dead' END;
    _key text;
    _heads bigint[];
BEGIN
    SELECT s.serialization_key INTO _key FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.job_id IS NULL;
    IF FOUND THEN
        was := 'waiting';
        IF _request = 'fail' THEN
            outcome := was;
            RETURN;
        END IF;
        PERFORM asyncjobs.lock_keys(ARRAY[_key]);
        IF NOT asyncjobs.end_waiting(ARRAY[_id], _status, _message, _max_errors) THEN
            outcome := 'again';
            RETURN;
        END IF;
        SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
    ELSE
        SELECT j.status, j.serialization_key INTO was, _key FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
        IF NOT FOUND OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.job_id IS NULL) THEN
            outcome := CASE WHEN EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id)
                              OR EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = _id) THEN 'again' ELSE 'unknown' END;
            RETURN;
        END IF;
        IF was IN ('completed', 'dead', 'cancelled') THEN
            outcome := 'final';
            RETURN;
        END IF;
        IF was = 'processing' THEN
            UPDATE asyncjobs.jobs AS j
            SET cancel_requested_at = asyncjobs.clock(), requested_outcome = _request, request_message = _message
            WHERE j.id = _id;
            outcome := 'requested';
            RETURN;
        END IF;
        IF _request = 'fail' THEN
            outcome := was;
            RETURN;
        END IF;
        PERFORM asyncjobs.write_end(ARRAY[_id], _status, _message, _max_errors);
        IF _key IS NOT NULL THEN
            _heads := asyncjobs.release_keys(ARRAY[_id]);
        END IF;
    END IF;
    outcome := _status;
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;
