-- Dedup keys: who has one, and on_duplicate="replace".
--
-- At most one live job of a type has a dedup key, whatever brings it to life.
--
-- 1. A job takes its key in the transaction that brings it to life, and before its own row is written: an enqueue, and an operator's retry
--    or requeue of a job that has ended. Whatever else makes a job pending (promotion, dispatch, a retry that is due, rescue, give-back,
--    release of its serialization key, resume, replacement) does that to one that has not ended, and has its key.
-- 2. `live` says that the key's job has not ended. Whatever ends a job takes that back (`end_dedup`), and lets the key go if its time
--    (`expires_at`) is over, or if it has none.
-- 3. An enqueue finds a key taken while its job lives, and until its time is over. An operator's hand starts a job over although that time
--    lasts, and whoever has the key, as long as that one has ended: the key and its time go over to the job. A live job is in the way
--    of both, and named.
-- 4. A key that is live, and whose job is gone (somebody's hand deleted it), is free.

-- Take a dedup key for a job, if nothing is in its way; returns the id of the job that has it now. Waits for a
-- transaction that is about to take it, and looks again in a new statement: a winner that rolls back leaves the key to the waiter.
-- The row of a key that somebody has is not locked: it would be until the end of the caller's transaction, and whatever ends that
-- job would wait for it. Inserting before looking keeps serializable transactions with different keys out of each other's way.
-- `_taker`: a job that has taken a key in this call, and whose row is yet to be written.
CREATE FUNCTION asyncjobs.take_dedup_key(
    _type text, _key text, _id bigint, _expires_at timestamptz, _taker bigint, _by_hand boolean DEFAULT false) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz;
    _owner bigint;
    _is_live boolean;
    _is_free boolean;
BEGIN
    LOOP
        INSERT INTO asyncjobs.dedup_keys AS d (type, dedup_key, job_id, expires_at) VALUES (_type, _key, _id, _expires_at)
        ON CONFLICT (type, dedup_key) DO NOTHING;
        IF FOUND THEN
            RETURN _id;
        END IF;
        _now := asyncjobs.moment();
        SELECT d.job_id, d.live, CASE
            WHEN d.live THEN d.job_id IS DISTINCT FROM _taker AND NOT EXISTS (SELECT FROM asyncjobs.status_and_key(d.job_id))
            ELSE _by_hand OR d.expires_at <= _now END
        INTO _owner, _is_live, _is_free
        FROM asyncjobs.dedup_keys AS d WHERE d.type = _type AND d.dedup_key = _key;
        IF FOUND AND NOT _is_free THEN
            RETURN _owner;
        END IF;
        UPDATE asyncjobs.dedup_keys AS d
        SET job_id = _id, live = true, expires_at = CASE WHEN _by_hand THEN d.expires_at ELSE _expires_at END
        WHERE d.type = _type AND d.dedup_key = _key AND d.job_id = _owner AND d.live = _is_live
          AND (_is_live OR _by_hand OR d.expires_at <= _now);
        IF FOUND THEN
            RETURN _id;
        END IF;
    END LOOP;
END $$;

-- Free the dedup keys that were taken for rows that were not written. `_ids` has nulls for the other rows.
CREATE FUNCTION asyncjobs.drop_dedup_keys(_ids bigint[], _types text[], _dedup_keys text[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM asyncjobs.dedup_keys AS d USING unnest(_ids, _types, _dedup_keys) AS r(id, type, dedup_key)
    WHERE d.type = r.type AND d.dedup_key = r.dedup_key AND d.job_id = r.id
      AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = r.id AND j.type = r.type AND j.dedup_key = r.dedup_key)
      AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = r.id AND s.type = r.type AND s.dedup_key = r.dedup_key);
END $$;

-- The status and the serialization key of a job, also while it waits in its line; no row when there is none.
CREATE FUNCTION asyncjobs.status_and_key(_id bigint) RETURNS TABLE (status text, serialization_key text) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.status, j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = _id
    UNION ALL
    SELECT 'waiting', s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.job_id IS NULL
    LIMIT 1;
END;

-- on_duplicate="replace" for the rows named by `_which`. In a caller's transaction jobs with a key are replaced at its commit: a row of a
-- line that stayed locked until then would hold up the ack of whoever is before it. What else is to be replaced is locked here, with
-- `_keys`. Error AJ001 if one of these jobs has ended since its dedup key was looked at: then nothing stands in the way of a new job.
CREATE FUNCTION asyncjobs.replace_jobs(
    _ids bigint[], _types text[], _dedup_keys text[], _payloads text[], _versions integer[], _run_ats timestamptz[], _delays float8[],
    _serialization_keys text[], _which integer[], _own boolean, _keys text[], _now timestamptz) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _here integer[] := ARRAY(
        SELECT w.at FROM unnest(_which) AS w(at) WHERE _own OR _serialization_keys IS NULL OR _serialization_keys[w.at] IS NULL);
    _row record;
BEGIN
    PERFORM asyncjobs.lock_replaced(ARRAY(SELECT _ids[w.at] FROM unnest(_here) AS w(at)), _keys);
    IF EXISTS (
        SELECT FROM unnest(_here) AS w(at) WHERE NOT EXISTS (
            SELECT FROM asyncjobs.dedup_keys AS d
            WHERE d.type = ANY (ARRAY[_types[w.at]]) AND d.dedup_key = ANY (ARRAY[_dedup_keys[w.at]]) AND d.job_id = _ids[w.at]
              AND (d.live OR d.expires_at > _now))) THEN
        RAISE EXCEPTION 'a job that was to be replaced has ended' USING ERRCODE = 'AJ001';
    END IF;
    FOR _row IN
        SELECT r.id, r.payload, coalesce(r.version, 1) AS version, r.key,
            coalesce(r.run_at, _now + make_interval(secs => r.delay), _now) AS due_at
        FROM unnest(_ids, _payloads, _versions, _run_ats, _delays, _serialization_keys)
            WITH ORDINALITY AS r(id, payload, version, run_at, delay, key, ordinal)
        WHERE r.ordinal = ANY (_which) ORDER BY r.key COLLATE "C", r.id, r.ordinal
    LOOP
        IF _row.key IS NULL THEN
            PERFORM asyncjobs.replace_job(_row.id, _row.payload, _row.version, _row.due_at);
        ELSIF _own THEN
            PERFORM asyncjobs.replace_keyed_job(_row.id, _row.key, _row.payload, _row.version, _row.due_at);
        ELSE
            INSERT INTO asyncjobs.replacements (job_id, serialization_key, payload, version, due_at)
            VALUES (_row.id, _row.key, _row.payload, _row.version, _row.due_at);
        END IF;
    END LOOP;
END $$;

-- The locks of a replacement: rows of jobs that have not started, or ended before they did, and keys.
CREATE FUNCTION asyncjobs.lock_replaced(_ids bigint[], _keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_in_order(_ids, '{scheduled,pending,paused,dead,cancelled}', _keys);
END $$;

-- Give a job without a serialization key that has not started a new payload and time. One that has started stays as it is.
CREATE FUNCTION asyncjobs.replace_job(_id bigint, _payload text, _version integer, _due_at timestamptz) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, run_at = _due_at, scheduled_at = _due_at, updated_at = _now,
        status = CASE WHEN _due_at > _now THEN 'scheduled'
                      WHEN j.status = 'paused' OR asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                      ELSE 'pending' END,
        place = CASE WHEN j.status = 'pending' THEN j.place ELSE nextval('asyncjobs.place_seq') END
    WHERE j.id = _id AND j.serialization_key IS NULL AND j.status IN ('scheduled', 'pending', 'paused')
      AND j.attempts = 0 AND j.started_at IS NULL;
END $$;

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

-- The same for a job that has ended before it ever started, for its dead letter, and for the job that was made of that since.
CREATE FUNCTION asyncjobs.replace_ended_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _made bigint;
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, run_at = _due_at, scheduled_at = _due_at, updated_at = asyncjobs.moment()
    WHERE j.id = _id AND j.status IN ('dead', 'cancelled') AND j.attempts = 0 AND j.started_at IS NULL;
    IF FOUND THEN
        UPDATE asyncjobs.dead_letter_jobs AS d
        SET original_job = d.original_job || jsonb_build_object('payload', _payload::jsonb, 'version', _version)
        WHERE d.job_id = _id;
        FOREACH _made IN ARRAY asyncjobs.requeued_of(ARRAY[_id]) LOOP
            PERFORM asyncjobs.replace_keyed_job(_made, _key, _payload, _version, least(_due_at, asyncjobs.clock()));
        END LOOP;
    END IF;
END $$;

-- The jobs that were made of dead letters of these, and of theirs. (A letter of a job that was retried names that job itself.)
CREATE FUNCTION asyncjobs.requeued_of(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE made (id) AS (
            SELECT d.requeued_as FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = ANY (_ids) AND d.requeued_as <> d.job_id
            UNION
            SELECT d.requeued_as FROM made AS m JOIN asyncjobs.dead_letter_jobs AS d
                ON d.job_id = ANY (ARRAY[m.id]) AND d.requeued_as <> d.job_id)
        SELECT m.id FROM made AS m ORDER BY m.id);
END $$;

-- What a caller's transaction replaces at its commit. Never holds a committed row.
CREATE TABLE asyncjobs.replacements (
    number            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id            bigint NOT NULL,
    serialization_key text NOT NULL,
    payload           text NOT NULL,
    version           integer NOT NULL,
    due_at            timestamptz NOT NULL
);

CREATE FUNCTION asyncjobs.apply_replacements() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
BEGIN
    IF NOT EXISTS (SELECT FROM asyncjobs.replacements) THEN
        RETURN NULL;  -- an earlier row of this transaction did it
    END IF;
    PERFORM asyncjobs.lock_joining();
    FOR _row IN
        WITH ours AS (
            DELETE FROM asyncjobs.replacements AS r RETURNING r.number, r.job_id, r.serialization_key, r.payload, r.version, r.due_at)
        SELECT o.job_id, o.serialization_key, o.payload, o.version, o.due_at FROM ours AS o
        ORDER BY o.serialization_key COLLATE "C", o.number
    LOOP
        PERFORM asyncjobs.replace_keyed_job(_row.job_id, _row.serialization_key, _row.payload, _row.version, _row.due_at);
    END LOOP;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.apply_replacements() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER replacements_apply AFTER INSERT ON asyncjobs.replacements
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION asyncjobs.apply_replacements();

-- The locks that a caller's transaction needs at its commit, all at once, in the order that everybody keeps: rows of jobs that it
-- replaces (but for those that wait in a line, which come after their keys), then the keys of these and of the rows that join. What was
-- requeued of them until the keys were locked is replaced, too: then all is let go, and it begins anew.
CREATE FUNCTION asyncjobs.lock_joining() RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ids bigint[] := ARRAY(SELECT r.job_id FROM asyncjobs.replacements AS r);
    _keys text[] := ARRAY(
        SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.place IS NULL
        UNION SELECT r.serialization_key FROM asyncjobs.replacements AS r);
    _made bigint[];
BEGIN
    IF cardinality(_ids) = 0 THEN
        PERFORM asyncjobs.lock_keys(_keys);
        RETURN;
    END IF;
    LOOP
        BEGIN
            _made := asyncjobs.requeued_of(_ids);
            PERFORM asyncjobs.lock_replaced(_ids || _made, _keys);
            IF asyncjobs.requeued_of(_ids) = _made THEN
                RETURN;
            END IF;
            RAISE EXCEPTION 'a job was requeued' USING ERRCODE = 'AJ001';
        EXCEPTION WHEN SQLSTATE 'AJ001' THEN
            NULL;
        END;
    END LOOP;
END $$;
