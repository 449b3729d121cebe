-- Operators' verbs that end jobs, dead letters, and what runners look for: whether the end of a job that they run was asked for.
--
-- A request (`requested_outcome`: 'cancel', 'dead' or 'fail') is written on the row of a job that runs. Its runner is told, or finds
-- it when it looks, and cancels the handler; the outcome is applied by the ack when the handler has ended, or by the rescue when its
-- runner is gone. The last request counts. A handler that ended by itself before its runner saw the request has ended so.

-- What was asked for of the jobs that this runner runs.
CREATE FUNCTION asyncjobs.requests(_runner bigint) RETURNS TABLE (id bigint, token bigint, wanted text, message text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id, j.claim_token, j.requested_outcome, j.request_message FROM asyncjobs.jobs AS j
    WHERE j.runner_id = _runner AND j.status = 'processing' AND j.requested_outcome IS NOT NULL ORDER BY j.id;
END $$;

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

-- End jobs that wait; their keys' locks are held. True when all were still waiting.
CREATE FUNCTION asyncjobs.end_waiting(_ids bigint[], _status text, _message text, _max_errors integer) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _gone bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.job_id IS NULL
        RETURNING s.id, s.queue, s.lane, s.type, s.version, s.payload, s.priority, s.max_attempts, s.timeout, s.scheduled_at,
            s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, s.on_dead, s.enqueue_token,
            s.requeued_from, s.trace_context, s.created_at),
    moved AS (
        INSERT INTO asyncjobs.jobs AS j (id, queue, lane, type, version, payload, priority, max_attempts, timeout, scheduled_at,
            correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, enqueue_token, requeued_from, trace_context,
            created_at, status)
        SELECT g.id, g.queue, g.lane, g.type, g.version, g.payload, g.priority, g.max_attempts, g.timeout, g.scheduled_at,
            g.correlation_id, g.parent_job_id, g.created_by, g.dedup_key, g.serialization_key, g.on_dead, g.enqueue_token,
            g.requeued_from, g.trace_context, g.created_at, 'waiting'
        FROM gone AS g
        ON CONFLICT (id) DO UPDATE SET updated_at = asyncjobs.clock()
        RETURNING j.id)
    SELECT array_agg(m.id) INTO _gone FROM moved AS m;
    PERFORM asyncjobs.write_end(_gone, _status, _message, _max_errors);
    RETURN coalesce(cardinality(_gone), 0) = cardinality(_ids);
END $$;

-- Write the end of jobs that do not run; their rows are locked. Their keys are the caller's business.
CREATE FUNCTION asyncjobs.write_end(_ids bigint[], _status text, _message text, _max_errors integer) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _killed jsonb := jsonb_build_object('at', _now, 'type', 'Killed', 'message', _message);
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET status = _status, completed_at = _now, error_message = _message, updated_at = _now, runner_id = NULL,
        errors = CASE WHEN _status <> 'dead' THEN j.errors ELSE asyncjobs.with_error(j.errors, e.entry, _max_errors) END
    FROM unnest(_ids) AS o(id) CROSS JOIN LATERAL (
        SELECT _killed || jsonb_build_object('attempt', x.attempts) AS entry FROM asyncjobs.jobs AS x WHERE x.id = ANY (ARRAY[o.id])) AS e
    WHERE j.id = ANY (ARRAY[o.id]);
    IF _status = 'dead' THEN
        PERFORM asyncjobs.bury(_ids);
    END IF;
    PERFORM asyncjobs.end_dedup(_ids);
END $$;

-- Apply what was asked for while these jobs ran: their attempts were acked just now, in this transaction, and did not end them. An
-- attempt that was given back, or snoozed, although it was to be failed is charged after all; the job is due at once. So is one that
-- had begun (`_uncounted`) when its job ends by this: what ran counts.
CREATE FUNCTION asyncjobs.obey_requests(_ids bigint[], _uncounted bigint[], _max_errors integer, OUT dead bigint[], OUT ended_keyed bigint[], OUT ended_dedup bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    WITH asked AS (
        SELECT j.id, j.attempts + c.charge AS attempts, j.requested_outcome = 'fail' AND j.status <> 'failed' AS is_failed,
            CASE WHEN j.requested_outcome = 'cancel' THEN 'cancelled'
                 WHEN j.requested_outcome = 'dead' THEN 'dead'
                 WHEN j.status = 'failed' OR j.attempts + 1 < j.max_attempts THEN 'failed'
                 ELSE 'dead' END AS status,
            CASE WHEN j.requested_outcome = 'dead' OR (j.requested_outcome = 'fail' AND j.status <> 'failed') THEN
                jsonb_build_object('at', _now, 'attempt', j.attempts + c.charge, 'message', j.request_message,
                    'type', CASE j.requested_outcome WHEN 'dead' THEN 'Killed' ELSE 'FailedByHand' END)
            END AS entry
        FROM asyncjobs.jobs AS j CROSS JOIN LATERAL (
            SELECT (j.status <> 'failed' AND (j.requested_outcome = 'fail' OR j.id = ANY (coalesce(_uncounted, '{}'))))::integer AS charge) AS c
        WHERE j.id = ANY (_ids)),
    obeyed AS (
        UPDATE asyncjobs.jobs AS j
        SET status = a.status, attempts = a.attempts,
            run_at = CASE WHEN a.is_failed THEN _now ELSE j.run_at END,
            completed_at = CASE WHEN a.status <> 'failed' THEN _now END,
            error_message = coalesce(j.request_message, j.error_message),
            last_error = CASE WHEN a.is_failed THEN j.request_message ELSE j.last_error END,
            last_error_at = CASE WHEN a.is_failed THEN _now ELSE j.last_error_at END,
            errors = CASE WHEN a.entry IS NULL THEN j.errors ELSE asyncjobs.with_error(j.errors, a.entry, _max_errors) END,
            requested_outcome = CASE WHEN a.status <> 'failed' THEN j.requested_outcome END,
            request_message = CASE WHEN a.status <> 'failed' THEN j.request_message END,
            cancel_requested_at = CASE WHEN a.status <> 'failed' THEN j.cancel_requested_at END
        FROM asked AS a WHERE j.id = ANY (ARRAY[a.id])
        RETURNING j.id, j.status, j.serialization_key, j.dedup_key)
    SELECT array_agg(o.id) FILTER (WHERE o.status = 'dead'),
        array_agg(o.id) FILTER (WHERE o.status <> 'failed' AND o.serialization_key IS NOT NULL),
        array_agg(o.id) FILTER (WHERE o.status <> 'failed' AND o.dedup_key IS NOT NULL)
    INTO dead, ended_keyed, ended_dedup FROM obeyed AS o;
END $$;

-- Take the dedup keys of these letters' jobs, each for a new id: `takers` says which, by letter, and `met` which live job has the key of
-- another letter.
CREATE FUNCTION asyncjobs.take_letters_keys(_ids bigint[], _force boolean, OUT takers jsonb, OUT met jsonb) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _id bigint;
    _taker bigint;
    _other bigint;
BEGIN
    takers := '{}';
    met := '{}';
    FOR _row IN
        SELECT d.id, d.original_job ->> 'type' AS type, d.original_job ->> 'dedup_key' AS dedup_key FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_ids) AND (_force OR d.requeued_as IS NULL) AND d.original_job ->> 'dedup_key' IS NOT NULL
        ORDER BY d.original_job ->> 'type', d.original_job ->> 'dedup_key', d.id
    LOOP
        _id := nextval('asyncjobs.jobs_id_seq');
        _other := asyncjobs.take_dedup_key(_row.type, _row.dedup_key, _id, NULL, _taker, true);
        IF _other = _id THEN
            _taker := _id;
            takers := takers || jsonb_build_object(_row.id, _id);
        ELSE
            met := met || jsonb_build_object(_row.id, _other);
        END IF;
    END LOOP;
END $$;

-- Make new jobs of dead letters: the same work, with all its attempts and its dedup key, under new ids. A letter that was requeued before
-- is passed over unless `_force`, and so is one whose dedup key a live job has (0005). The dedup keys come first; a letter that
-- turns out to be requeued, or pruned, meanwhile is an error 40001: called once more. Letters are locked then, in the order of their ids,
-- then all keys, then lines are written: in the order of the deaths (of the ids, whatever the clock said), which is that in which each key
-- had run them. `outcome`: 'requeued', 'requeued before' (`new_id`: as which job), or 'duplicate' (`other_id`: the live job); a
-- letter that is not there has no row.
CREATE FUNCTION asyncjobs.requeue_letters(_ids bigint[], _by text, _force boolean)
RETURNS TABLE (letter_id bigint, outcome text, job_id bigint, new_id bigint, status text, queue text, other_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _locked bigint[];
    _letters bigint[];
    _new bigint[];
    _keys text[];
    _token bigint := asyncjobs.fresh_token();
    _takers jsonb;
    _met jsonb;
BEGIN
    IF EXISTS (SELECT FROM asyncjobs.sequences_behind()) THEN
        PERFORM asyncjobs.move_sequences();
    END IF;
    SELECT k.takers, k.met INTO _takers, _met FROM asyncjobs.take_letters_keys(_ids, _force) AS k;
    -- Letters after keys, as a retry and a replacement at a commit do. The key of a letter never changes.
    _keys := ARRAY(
        SELECT DISTINCT d.original_job ->> 'serialization_key' FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_ids) AND d.original_job ->> 'serialization_key' IS NOT NULL);
    PERFORM asyncjobs.lock_keys(_keys);
    _locked := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_ids) ORDER BY d.id FOR UPDATE);
    _letters := ARRAY(
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_locked) AND (_force OR d.requeued_as IS NULL) AND NOT _met ? d.id::text ORDER BY d.id);
    IF EXISTS (SELECT FROM jsonb_object_keys(_takers) AS t(letter) WHERE t.letter::bigint <> ALL (_letters)) THEN
        RAISE EXCEPTION 'a dead letter moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    _new := ARRAY(
        SELECT coalesce((_takers ->> u.letter::text)::bigint, nextval('asyncjobs.jobs_id_seq'))
        FROM unnest(_letters) WITH ORDINALITY AS u(letter, number) ORDER BY u.number);
    PERFORM asyncjobs.check_places(_keys);

    INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key, queue, lane, type, version, payload, priority, max_attempts,
        timeout, correlation_id, parent_job_id, created_by, dedup_key, on_dead, requeued_from, trace_context, enqueue_token)
    SELECT l.id, nextval('asyncjobs.place_seq'), o.serialization_key, o.queue, o.lane, o.type, o.version, o.payload, o.priority,
        o.max_attempts, o.timeout, o.correlation_id, o.parent_job_id, _by, o.dedup_key, coalesce(o.on_dead, 'advance'), l.job_id, o.trace_context,
        _token
    FROM (SELECT u.id, d.job_id, d.original_job
          FROM unnest(_letters, _new) WITH ORDINALITY AS u(letter, id, number)
          JOIN asyncjobs.dead_letter_jobs AS d ON d.id = ANY (ARRAY[u.letter]) ORDER BY u.number) AS l
    CROSS JOIN LATERAL jsonb_populate_record(NULL::asyncjobs.jobs, l.original_job) AS o
    WHERE o.serialization_key IS NOT NULL;
    PERFORM asyncjobs.dispatch_keys(_keys);

    INSERT INTO asyncjobs.jobs (id, queue, lane, type, version, payload, priority, max_attempts, timeout, correlation_id, parent_job_id,
        created_by, dedup_key, on_dead, requeued_from, trace_context, enqueue_token, status)
    SELECT l.id, o.queue, o.lane, o.type, o.version, o.payload, o.priority, o.max_attempts, o.timeout, o.correlation_id, o.parent_job_id,
        _by, o.dedup_key, coalesce(o.on_dead, 'advance'), l.job_id, o.trace_context, _token,
        CASE WHEN asyncjobs.is_paused(o.type, NULL) THEN 'paused' ELSE 'pending' END
    FROM (SELECT u.id, d.job_id, d.original_job
          FROM unnest(_letters, _new) WITH ORDINALITY AS u(letter, id, number)
          JOIN asyncjobs.dead_letter_jobs AS d ON d.id = ANY (ARRAY[u.letter]) ORDER BY u.number) AS l
    CROSS JOIN LATERAL jsonb_populate_record(NULL::asyncjobs.jobs, l.original_job) AS o
    WHERE o.serialization_key IS NULL;

    UPDATE asyncjobs.dead_letter_jobs AS d
    SET requeued_as = u.id, requeue_count = d.requeue_count + 1, acknowledged = true,
        acknowledged_by = coalesce(d.acknowledged_by, _by), acknowledged_at = coalesce(d.acknowledged_at, _now)
    FROM unnest(_letters, _new) AS u(letter, id) WHERE d.id = ANY (ARRAY[u.letter]);

    RETURN QUERY
    SELECT d.id, CASE WHEN d.id = ANY (_letters) THEN 'requeued' WHEN m.other_id IS NULL THEN 'requeued before' ELSE 'duplicate' END,
        d.job_id, CASE WHEN m.other_id IS NULL THEN d.requeued_as END,
        coalesce((SELECT j.status FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[d.requeued_as])), 'waiting'),
        d.original_job ->> 'queue', m.other_id
    FROM asyncjobs.dead_letter_jobs AS d CROSS JOIN LATERAL (
        SELECT CASE WHEN _force OR d.requeued_as IS NULL THEN (_met ->> d.id::text)::bigint END AS other_id) AS m
    WHERE d.id = ANY (_locked);
END $$;

-- Somebody has seen these dead letters. They are kept for a while, and no longer listed as unacknowledged.
CREATE FUNCTION asyncjobs.acknowledge_letters(_ids bigint[], _by text)
RETURNS TABLE (letter_id bigint, job_id bigint, is_new boolean, acknowledged_by text, acknowledged_at timestamptz) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _locked bigint[];
    _new bigint[];
BEGIN
    _locked := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_ids) ORDER BY d.id FOR UPDATE);
    WITH seen AS (
        UPDATE asyncjobs.dead_letter_jobs AS d
        SET acknowledged = true, acknowledged_by = _by, acknowledged_at = asyncjobs.clock()
        WHERE d.id = ANY (_locked) AND NOT d.acknowledged RETURNING d.id)
    SELECT coalesce(array_agg(s.id), '{}') INTO _new FROM seen AS s;
    RETURN QUERY
    SELECT d.id, d.job_id, d.id = ANY (_new), d.acknowledged_by, d.acknowledged_at
    FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_locked) ORDER BY d.id;
END $$;

-- End many jobs in one transaction; the rows first, in the order of their ids, then all keys. Line by line, from the last to the first:
-- what waits is ended before the head of its key, which would otherwise dispatch one after the other.
CREATE FUNCTION asyncjobs.end_jobs(_ids bigint[], _request text, _message text, _max_errors integer)
RETURNS TABLE (id bigint, outcome text, was text, queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM asyncjobs.lock_in_order(_ids, '{scheduled,pending,processing,failed,completed,dead,cancelled,paused}', ARRAY(
        SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids)
        UNION SELECT j.serialization_key FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.serialization_key IS NOT NULL AND j.status NOT IN ('completed', 'dead', 'cancelled')));
    FOR id IN
        SELECT u.id FROM unnest(_ids) AS u(id) ORDER BY coalesce(
            (SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.id = u.id),
            (SELECT j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = u.id)) COLLATE "C", u.id DESC
    LOOP
        SELECT e.outcome, e.was, e.queues INTO outcome, was, queues FROM asyncjobs.end_job(id, _request, _message, _max_errors) AS e;
        RETURN NEXT;
    END LOOP;
END $$;

-- A page of jobs that fit, those with the highest ids first, below `_before`. At most `_look` jobs are looked at in a call (and as many
-- that wait for their key): `next` is where the next one goes on, null when there is nothing more. Where an index says what is meant (a
-- correlation id, children of a job, what is unfinished, what is dead) only that is looked at; `_walk` goes along the ids all the same,
-- as changes of many jobs do, page by page. An index that is not in the order of the ids has to be read up to its end: one in
-- which there are more than `_look` jobs is left, and the ids are walked.
CREATE FUNCTION asyncjobs.find_jobs(
    _before bigint, _limit integer, _look integer, _walk boolean, _correlation_id text, _type text, _statuses text[], _queue text,
    _key text, _parent bigint, _payload jsonb, _error text, OUT ids bigint[], OUT statuses text[], OUT looked integer, OUT next bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _dispatched bigint[];
    _waiting bigint[];
    _floor bigint;
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _correlation_id IS NOT NULL THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = _correlation_id LIMIT _look + 1);
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.correlation_id = _correlation_id AND s.job_id IS NULL LIMIT _look + 1);
    ELSIF _parent IS NOT NULL THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.parent_job_id = _parent LIMIT _look + 1);
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.parent_job_id = _parent AND s.job_id IS NULL LIMIT _look + 1);
    ELSIF _walk THEN
        NULL;
    ELSIF _statuses <@ '{processing}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.runner_id IS NOT NULL AND j.status = 'processing' LIMIT _look + 1);
    ELSIF _statuses <@ '{pending}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'pending' LIMIT _look + 1);
    ELSIF _statuses <@ '{scheduled,failed}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed') LIMIT _look + 1);
    ELSIF _statuses <@ '{paused}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT _look + 1);
    ELSIF _statuses <@ '{waiting}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.status = 'waiting' LIMIT _look + 1);
    ELSIF _type IS NOT NULL AND _statuses <@ '{completed,cancelled}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.status IN ('completed', 'cancelled') AND j.type = _type LIMIT _look + 1);
    ELSIF _statuses <@ '{dead}' THEN
        _dispatched := ARRAY(SELECT DISTINCT d.job_id FROM asyncjobs.dead_letter_jobs AS d
            WHERE d.job_id < _before ORDER BY d.job_id DESC LIMIT _look);
    END IF;
    IF _key IS NOT NULL AND _waiting IS NULL THEN
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key = _key AND s.job_id IS NULL ORDER BY s.place DESC LIMIT _look + 1);
    END IF;
    IF _dispatched IS NULL OR cardinality(_dispatched) > _look THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id < _before ORDER BY j.id DESC LIMIT _look);
    ELSE
        _dispatched := ARRAY(SELECT u.id FROM unnest(_dispatched) AS u(id) WHERE u.id < _before ORDER BY u.id DESC);
    END IF;
    IF NOT 'waiting' = ANY (_statuses) THEN
        _waiting := '{}';
    ELSIF _waiting IS NULL OR cardinality(_waiting) > _look THEN
        _waiting := ARRAY(SELECT w.id FROM (
            SELECT s.id, s.job_id FROM asyncjobs.serialized_jobs AS s WHERE s.id < _before ORDER BY s.id DESC LIMIT _look) AS w);
    ELSE
        _waiting := ARRAY(SELECT u.id FROM unnest(_waiting) AS u(id) WHERE u.id < _before ORDER BY u.id DESC);
    END IF;
    looked := cardinality(_dispatched) + cardinality(_waiting);
    -- Below the last one that a full look has seen nothing is known.
    _floor := greatest(CASE WHEN cardinality(_dispatched) >= _look THEN _dispatched[_look] END,
                       CASE WHEN cardinality(_waiting) >= _look THEN _waiting[_look] END);
    SELECT coalesce(array_agg(f.id ORDER BY f.id DESC), '{}'), coalesce(array_agg(f.status ORDER BY f.id DESC), '{}') INTO ids, statuses
    FROM (SELECT c.id, c.status FROM (
              SELECT j.id, j.status, j.type, j.queue, j.serialization_key, j.correlation_id, j.parent_job_id, j.payload, j.error_message
              FROM asyncjobs.jobs AS j WHERE j.id = ANY (_dispatched || _waiting)
              UNION ALL
              SELECT s.id, 'waiting', s.type, s.queue, s.serialization_key, s.correlation_id, s.parent_job_id, s.payload, NULL
              FROM asyncjobs.serialized_jobs AS s
              WHERE s.id = ANY (_waiting) AND s.job_id IS NULL
                AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[s.id]))) AS c
          WHERE (_floor IS NULL OR c.id >= _floor) AND (_statuses IS NULL OR c.status = ANY (_statuses))
            AND (_type IS NULL OR c.type = _type) AND (_queue IS NULL OR c.queue = _queue)
            AND (_key IS NULL OR c.serialization_key = _key) AND (_correlation_id IS NULL OR c.correlation_id = _correlation_id)
            AND (_parent IS NULL OR c.parent_job_id = _parent)
            AND (_payload IS NULL OR c.payload @> _payload)
            AND (_error IS NULL OR strpos(lower(c.error_message), lower(_error)) > 0)
          ORDER BY c.id DESC LIMIT _limit) AS f;
    next := CASE WHEN cardinality(ids) >= _limit THEN ids[_limit] ELSE _floor END;
END $$;

-- What a runner has room for: queue -> lane ('' for its general slots) -> slots.
ALTER TABLE asyncjobs.runners ADD COLUMN slots jsonb NOT NULL DEFAULT '{}';

-- A page of dead letters that fit, the newest first, below `_before`. At most `_look` letters are looked at in a call: `next` is where the
-- next one goes on, null when there is nothing more. Those of a key, of a correlation id or of a type are looked at directly, and
-- so are those that nobody has acknowledged, if they are not more than that. Rows are compared with two bounds, since an
-- equation would leave the order to any index. (Bitmaps are collected as a whole, whatever the limit.)
CREATE FUNCTION asyncjobs.find_letters(
    _before bigint, _limit integer, _look integer, _type text, _queue text, _key text, _correlation_id text, _error text,
    _died_after timestamptz, _died_before timestamptz, _acknowledged boolean, OUT ids bigint[], OUT looked integer, OUT next bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _seen bigint[];
    _floor bigint;
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _correlation_id IS NOT NULL THEN
        _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
            WHERE (d.original_job ->> 'correlation_id', d.id) < (_correlation_id, _before)
              AND (d.original_job ->> 'correlation_id', d.id) > (_correlation_id, 0) AND d.original_job ->> 'correlation_id' IS NOT NULL
            ORDER BY d.original_job ->> 'correlation_id' DESC, d.id DESC LIMIT _look);
    ELSIF _key IS NOT NULL THEN
        _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
            WHERE (d.original_job ->> 'serialization_key', d.id) < (_key, _before)
              AND (d.original_job ->> 'serialization_key', d.id) > (_key, 0) AND d.original_job ->> 'serialization_key' IS NOT NULL
            ORDER BY d.original_job ->> 'serialization_key' DESC, d.id DESC LIMIT _look);
    ELSE
        IF NOT _acknowledged THEN
            _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE NOT d.acknowledged ORDER BY d.died_at LIMIT _look + 1);
        END IF;
        IF cardinality(_seen) <= _look THEN
            _seen := ARRAY(SELECT u.id FROM unnest(_seen) AS u(id) WHERE u.id < _before ORDER BY u.id DESC);
        ELSIF _type IS NOT NULL THEN
            _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
                WHERE (d.original_job ->> 'type', d.id) < (_type, _before) AND (d.original_job ->> 'type', d.id) > (_type, 0)
                ORDER BY d.original_job ->> 'type' DESC, d.id DESC LIMIT _look);
        ELSE
            _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id < _before ORDER BY d.id DESC LIMIT _look);
        END IF;
    END IF;
    looked := cardinality(_seen);
    _floor := CASE WHEN looked >= _look THEN _seen[_look] END;
    ids := ARRAY(
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_seen) AND (_type IS NULL OR d.original_job ->> 'type' = _type)
          AND (_queue IS NULL OR d.original_job ->> 'queue' = _queue)
          AND (_key IS NULL OR d.original_job ->> 'serialization_key' = _key)
          AND (_correlation_id IS NULL OR d.original_job ->> 'correlation_id' = _correlation_id)
          AND (_error IS NULL OR strpos(lower(d.error_message), lower(_error)) > 0)
          AND (_died_after IS NULL OR d.died_at >= _died_after) AND (_died_before IS NULL OR d.died_at < _died_before)
          AND (_acknowledged IS NULL OR d.acknowledged = _acknowledged)
        ORDER BY d.id DESC LIMIT _limit);
    next := CASE WHEN cardinality(ids) >= _limit THEN ids[_limit] ELSE _floor END;
END $$;

-- Sessions of the dashboard that were ended before their time: their cookies are signed, and would be taken until then.
CREATE TABLE asyncjobs.ended_sessions (
    session  text PRIMARY KEY,
    until_at timestamptz NOT NULL
);
