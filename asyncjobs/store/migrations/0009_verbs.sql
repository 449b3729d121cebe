-- Operators' verbs on jobs and keys. Each is one transaction, says what it found and did, and leaves every key it touched with a head
-- dispatched, or with a reason why not.
--
-- `outcome` of a verb: what it did, or why it did nothing: 'unknown' (no such job), 'final', 'waiting', 'processing', 'duplicate',
-- 'again' (the job moved on under our eyes: call once more). `was`: the status in which it found the job.

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
        outcome := CASE WHEN EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id) THEN 'waiting' ELSE 'unknown' END;
        was := CASE WHEN outcome = 'waiting' THEN 'waiting' END;
        RETURN;
    END IF;
    IF was IN ('dead', 'cancelled') AND _dedup IS NOT NULL THEN
        other_id := asyncjobs.take_dedup_key(_type, _dedup, _id, NULL, NULL, true);
        IF other_id <> _id THEN
            IF asyncjobs.having_status(ARRAY[_id], ARRAY[was]) = '{}' THEN  -- it was pruned while its dedup key was waited for
                RAISE EXCEPTION 'job % moved on', _id USING ERRCODE = 'serialization_failure';
            END IF;
            outcome := 'duplicate';
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
    IF _job.serialization_key IS NOT NULL THEN  -- before the letters, as a requeue does
        PERFORM asyncjobs.lock_keys(ARRAY[_job.serialization_key]);
    END IF;
    IF was IN ('dead', 'cancelled') THEN
        UPDATE asyncjobs.jobs AS j SET attempts = 0, rescues = 0, losses = 0, suspicion = 0, completed_at = NULL, error_message = NULL, claim_token = NULL, progress = NULL,
            status = 'failed', requested_outcome = NULL, request_message = NULL, cancel_requested_at = NULL
        WHERE j.id = _id;
        UPDATE asyncjobs.dead_letter_jobs AS d SET acknowledged = true, acknowledged_by = _by, acknowledged_at = _now,
            requeued_as = _id, requeue_count = d.requeue_count + 1
        WHERE d.job_id = _id AND NOT d.acknowledged;
    END IF;
    IF _job.serialization_key IS NOT NULL THEN
        UPDATE asyncjobs.serialized_jobs AS s SET halted_at = NULL, halt_reason = NULL WHERE s.id = _id AND s.job_id IS NOT NULL;
        IF NOT FOUND THEN
            PERFORM asyncjobs.join_line(_id);
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
    outcome := 'retried';
    queues := ARRAY[_job.queue];
END $$;

-- Put a job that has its row in `jobs` at the end of its key's line, as waiting. The key's lock is held.
CREATE FUNCTION asyncjobs.join_line(_id bigint) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.check_places(ARRAY(SELECT j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = _id));
    INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key, queue, lane, type, version, payload, priority, max_attempts,
        timeout, scheduled_at, correlation_id, parent_job_id, created_by, dedup_key, on_dead, enqueue_token, requeued_from,
        trace_context, created_at)
    SELECT j.id, nextval('asyncjobs.place_seq'), j.serialization_key, j.queue, j.lane, j.type, j.version, j.payload, j.priority,
        j.max_attempts, j.timeout, j.scheduled_at, j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key, j.on_dead,
        j.enqueue_token, j.requeued_from, j.trace_context, j.created_at
    FROM asyncjobs.jobs AS j WHERE j.id = _id;
    UPDATE asyncjobs.jobs AS j SET status = 'waiting', run_at = asyncjobs.clock(), updated_at = asyncjobs.clock() WHERE j.id = _id;
END $$;

-- Lock a key together with the row of its head: then no ack of the head is under way, which would dispatch the next one without the
-- key's lock. A head that is being completed in its handler's own transaction is not waited for: that lets the key go later, in a
-- statement that sees what was committed before, or under the key's lock. An ack whose commit is slow is: error 55P03 after two seconds.
CREATE FUNCTION asyncjobs.hold_key(_key text) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    SELECT s.id INTO _id FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = _key AND s.job_id IS NOT NULL;
    FOR _try IN 1 .. 10 LOOP
        BEGIN
            PERFORM FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            EXIT WHEN asyncjobs.is_completing(_id);
            IF _try = 10 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    PERFORM asyncjobs.check_head(_key, _id);  -- the row of a job that is not the head is not held while the key is waited for
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    PERFORM asyncjobs.check_head(_key, _id);
END $$;

-- The head of a key is still this one (null: none); else error 40001: called once more.
CREATE FUNCTION asyncjobs.check_head(_key text, _id bigint) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = _key AND s.job_id IS NOT NULL) IS DISTINCT FROM _id THEN
        RAISE EXCEPTION 'the head of the key moved on' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Let a halted key go on without its head, which stays dead. `halted_id`: the job that had halted it; null: the key is not halted.
CREATE FUNCTION asyncjobs.release_key(_key text, OUT halted_id bigint, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    DELETE FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.job_id IS NOT NULL AND s.halted_at IS NOT NULL RETURNING s.id INTO halted_id;
    IF halted_id IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;

-- Hold the head of a key back that is paused, if it does not run. To be called when the pause (0015) is committed: whoever was about to
-- make the head pending, or to start the next one, without having seen it, held the head's row or the key, and has ended when both are
-- held here. Whoever holds them later sees the pause. So when this has answered nothing of the key starts any more.
CREATE FUNCTION asyncjobs.hold_back_key(_key text) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = asyncjobs.clock()
    FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.job_id IS NOT NULL AND j.id = s.id AND j.status = 'pending'
      AND asyncjobs.is_paused(NULL, _key);
END $$;

-- Resume a key. `resumed` false: it was not paused.
CREATE FUNCTION asyncjobs.resume_key(_key text, OUT resumed boolean, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    DELETE FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = _key;
    resumed := FOUND;
    WITH again AS (
        UPDATE asyncjobs.jobs AS j SET status = 'pending', place = nextval('asyncjobs.place_seq'), updated_at = asyncjobs.clock()
        FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = _key AND s.job_id IS NOT NULL AND j.id = s.id AND j.status = 'paused'
          AND NOT asyncjobs.is_paused(j.type, NULL)
        RETURNING j.id)
    SELECT array_agg(a.id) INTO _heads FROM again AS a;
    _heads := _heads || ARRAY(SELECT d.id FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d);
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;

-- Cancel at most `_limit` jobs that wait for this key, from the end of the line. The head is a job like any other: end_job.
CREATE FUNCTION asyncjobs.purge_key(_key text, _message text, _limit integer, OUT cancelled bigint[], OUT head_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    cancelled := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = _key AND s.job_id IS NULL AND s.place IS NOT NULL ORDER BY s.place DESC LIMIT _limit FOR UPDATE);
    PERFORM asyncjobs.end_waiting(cancelled, 'cancelled', _message, 0);
    SELECT s.id INTO head_id FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.job_id IS NOT NULL AND s.halted_at IS NULL;
END $$;

-- A page of keys behind `_after`, with what an operator wants to know of each.
CREATE FUNCTION asyncjobs.list_keys(_after text, _limit integer, _only text)
RETURNS TABLE (key text, depth bigint, head_id bigint, head_type text, head_status text, head_since timestamptz, oldest_at timestamptz,
    halted_at timestamptz, halt_reason text, paused_at timestamptz, pause_reason text, runner_id bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE keys(key, number) AS (
        (SELECT s.serialization_key, 1 FROM asyncjobs.serialized_jobs AS s
         WHERE s.serialization_key > _after AND (_only IS NULL OR s.serialization_key = _only) ORDER BY s.serialization_key LIMIT 1)
        UNION ALL
        SELECT n.key, k.number + 1 FROM keys AS k CROSS JOIN LATERAL (
            SELECT s.serialization_key AS key FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key > k.key ORDER BY s.serialization_key LIMIT 1) AS n
        WHERE k.number < _limit AND _only IS NULL)
    SELECT k.key, c.depth, h.id, coalesce(j.type, h.type), coalesce(j.status, 'waiting'),
        coalesce(j.started_at, h.dispatched_at, h.created_at), c.oldest_at, h.halted_at, h.halt_reason, p.paused_at, p.reason, j.runner_id
    FROM keys AS k
    CROSS JOIN LATERAL (SELECT count(*) AS depth, min(s.created_at) AS oldest_at FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key) AS c
    CROSS JOIN LATERAL (SELECT s.id, s.type, s.dispatched_at, s.created_at, s.halted_at, s.halt_reason FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key ORDER BY s.job_id IS NULL, s.place LIMIT 1) AS h
    LEFT JOIN asyncjobs.jobs AS j ON j.id = h.id
    LEFT JOIN asyncjobs.pauses AS p ON p.kind = 'key' AND p.name = k.key
    ORDER BY k.number;
END $$;
