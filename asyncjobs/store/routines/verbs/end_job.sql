-- End a job: 'cancel', or 'dead' (with a dead letter). Or 'fail' the attempt that runs, to be retried while it has attempts left. One
-- that runs is asked to end; its key is let go when its handler has ended.
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
    SELECT w.status, w.serialization_key INTO was, _key FROM asyncjobs.status_in_line(_id) AS w;
    IF was IS NULL THEN
        outcome := 'unknown';
        RETURN;
    END IF;
    IF was <> 'waiting' THEN
        PERFORM FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
        IF (SELECT w.status FROM asyncjobs.status_in_line(_id) AS w) IS DISTINCT FROM was THEN
            outcome := 'again';
            RETURN;
        END IF;
    END IF;
    IF was IN ('completed', 'dead', 'cancelled') THEN
        outcome := 'final';
    ELSIF was = 'processing' THEN
        UPDATE asyncjobs.jobs AS j
        SET cancel_requested_at = asyncjobs.clock(), requested_outcome = _request, request_message = _message
        WHERE j.id = _id;
        outcome := 'requested';
    ELSIF _request = 'fail' THEN
        outcome := was;
    ELSIF was = 'waiting' THEN
        PERFORM asyncjobs.lock_keys(ARRAY[_key]);
        IF asyncjobs.end_waiting(ARRAY[_id], _status, _message, _max_errors) IS NOT NULL THEN
            outcome := _status;
            SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
            queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
        ELSE
            outcome := 'again';
        END IF;
    ELSE
        outcome := _status;
        SELECT e.queues INTO queues FROM asyncjobs.end_idle(ARRAY[_id], _status, _message, _max_errors) AS e;
    END IF;
END $$;
