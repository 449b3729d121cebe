-- Serialization keys: the lock of a key, the dispatch of heads, and the join at the commit of a caller's transaction.
--
-- Here and in all that follows, rows are looked up for others by `id = ANY (ARRAY[o.id])`, not by `id = o.id`. Plans are kept. One
-- that was made while the table was empty would walk its whole index for the latter, once, and compare: with 24,000 jobs a claim of
-- 200 took 1.9 s instead of 2 ms, and rows were locked in another order. The former can only be looked up. (So can a `ctid`: of rows
-- that this transaction has locked already, as claims do.)

-- NOTIFY's channel for this schema. A fixed length, whatever the schema is called (a name may have 63 bytes, a channel, too).
CREATE FUNCTION asyncjobs.channel() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'asyncjobs_' || pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
    (pg_catalog.parse_ident('asyncjobs.channel'))[1], 'UTF8')), 'hex'), 32);

-- Whether this transaction may notify: not behind an enqueue with notify=False. Whoever says so means to PREPARE TRANSACTION, which a
-- single NOTIFY forbids, whatever it is for. It is a setting, which ends (and rolls back to savepoints) with the transaction.
CREATE FUNCTION asyncjobs.may_notify() RETURNS boolean LANGUAGE sql STABLE
RETURN pg_catalog.current_setting('asyncjobs_notify.is_off', true) IS DISTINCT FROM 'on';

-- The only way in which SQL notifies. What is not told is found by the polls of those who would have heard it.
CREATE FUNCTION asyncjobs.tell(_payload text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asyncjobs.may_notify() THEN
        PERFORM pg_notify(asyncjobs.channel(), _payload);
    END IF;
END $$;

-- Keys whose head is to be dispatched by a serializer. No key is unique here: to find out would conflict with others.
CREATE TABLE asyncjobs.dispatch_requests (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    serialization_key text NOT NULL
);

-- Slots of these keys. Keys share 4,096 of them: a lock per key would run out of shared memory at some 50,000 keys in one transaction.
CREATE FUNCTION asyncjobs.key_slots(_keys text[]) RETURNS integer[] LANGUAGE sql IMMUTABLE
RETURN ARRAY(SELECT DISTINCT pg_catalog.hashtext(k.key) & 4095 AS slot FROM pg_catalog.unnest(_keys) AS k(key) ORDER BY slot);

-- Lock the keys until the end of the transaction, their slots in ascending order: two orders would deadlock.
CREATE FUNCTION asyncjobs.lock_keys(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), slots.slot)
    FROM unnest(asyncjobs.key_slots(_keys)) AS slots(slot);
END $$;

-- The same, giving up after a moment: error 55P03.
CREATE FUNCTION asyncjobs.lock_keys_shortly(_keys text[]) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_keys(_keys);
END $$;

-- Lock those of the keys that nobody has locked, without waiting; returns these.
CREATE FUNCTION asyncjobs.try_lock_keys(_keys text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH slots AS MATERIALIZED (
            SELECT u.slot, pg_try_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), u.slot) AS is_ours
            FROM unnest(asyncjobs.key_slots(_keys)) AS u(slot))
        SELECT DISTINCT k.key FROM unnest(_keys) AS k(key) JOIN slots ON slots.slot = hashtext(k.key) & 4095 WHERE slots.is_ours);
END $$;

-- Two rules for whatever waits for a lock, here and in all that follows:
--
-- *Look under the lock.* A statement that waited sees what others wrote to the row it waited for, and everything else as it was before
-- the wait. So what decides about a row and stands elsewhere (a pause, the line of a key, whether a runner is there) is read by a
-- statement that begins when the lock is held. Whoever changes such a thing commits it first and takes the locks then: those who held
-- them before have ended by that time, and those who hold them later see it.
--
-- *Keep no lock of what has moved on.* Locks are taken in one order: dedup rows, rows of jobs that do not wait in a line, keys, rows of
-- lines, rows of jobs that wait. A row whose status changes while it is waited for may have come to stand elsewhere in it. A condition on
-- the status does not help: FOR UPDATE checks it again after the wait, drops the row from its answer, and keeps its lock. So rows are
-- locked by their ids, and looked at after that; if any is not as it was, all of these locks are let go, and it begins anew.

-- Those of these jobs that have one of these statuses in `jobs`.
CREATE FUNCTION asyncjobs.having_status(_ids bigint[], _statuses text[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status = ANY (_statuses) ORDER BY j.id);
END $$;

-- Lock those of the jobs that have one of these statuses (not `waiting`), in the order of their ids, and then the keys. The locks that
-- were taken in vain are let go by rolling back to where the block began.
CREATE FUNCTION asyncjobs.lock_in_order(_ids bigint[], _statuses text[], _keys text[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _rows bigint[];
BEGIN
    IF coalesce(cardinality(_ids), 0) = 0 THEN
        PERFORM asyncjobs.lock_keys(_keys);
        RETURN;
    END IF;
    LOOP
        BEGIN
            _rows := asyncjobs.having_status(_ids, _statuses);
            PERFORM FROM asyncjobs.jobs AS j WHERE j.id = ANY (_rows) ORDER BY j.id FOR UPDATE;
            IF asyncjobs.having_status(_ids, _statuses) = _rows THEN
                PERFORM asyncjobs.lock_keys(_keys);
                IF asyncjobs.having_status(_ids, _statuses) = _rows THEN
                    RETURN;
                END IF;
            END IF;
            RAISE EXCEPTION 'a job moved on' USING ERRCODE = 'AJ001';
        EXCEPTION WHEN SQLSTATE 'AJ001' THEN
            NULL;
        END;
    END LOOP;
END $$;

-- Leave it to a serializer to dispatch the heads of these keys, after the commit.
CREATE FUNCTION asyncjobs.request_dispatch(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count bigint := 0;
BEGIN
    LOOP
        WITH written AS (
            INSERT INTO asyncjobs.dispatch_requests AS r (serialization_key) SELECT DISTINCT k.key FROM unnest(_keys) AS k(key)
            ON CONFLICT (id) DO NOTHING RETURNING r.serialization_key)
        SELECT _count + count(1), array_agg(DISTINCT k.key) FILTER (WHERE w.serialization_key IS NULL) INTO _count, _keys
        FROM unnest(_keys) AS k(key) LEFT JOIN written AS w ON w.serialization_key = k.key;
        EXIT WHEN _keys IS NULL;
        PERFORM asyncjobs.move_sequences();  -- its number belongs to another request
    END LOOP;
    IF _count > 0 THEN
        PERFORM asyncjobs.tell('k');
    END IF;
END $$;

-- Whether an operator holds jobs of this type or key back. A paused queue is the claim's affair alone: nobody else looks at its rows,
-- and pausing and resuming a long one costs nothing.
CREATE FUNCTION asyncjobs.is_paused(_type text, _key text) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM asyncjobs.pauses AS p
    WHERE (p.kind = 'type' AND p.name = _type) OR (p.kind = 'key' AND p.name = _key));

-- Dispatch the head of every one of these keys that has none dispatched. Callers hold the keys' locks, or have just deleted the
-- dispatched row in this transaction. Idle keys are filtered before any row is locked: otherwise this deadlocks with acks.
--
-- `_after` are the places of the rows just deleted: whoever waits in a key's line has a later one than its head, since places are drawn
-- under the key's lock. Without it the scan walks over all rows of the line that were deleted since the last vacuum: it cannot mark
-- them in the index for the next scan, since this statement itself writes to the page while the scan is open. A job of one key took
-- 1.04 million instructions of the server instead of 0.92, as the mean of the first 250, and more with each that followed.
-- Near places are tried first: a scan reads all entries of the line that its page has, wanted or not (100 keys, 50 jobs a call: 407 to
-- 387 thousand instructions a job).
--
-- Without bitmaps and sorts: a plan made while the table was empty collects a key's whole line for its first job, at every dispatch.
CREATE FUNCTION asyncjobs.dispatch_keys(_keys text[], _after bigint[] DEFAULT NULL) RETURNS TABLE (id bigint, serialization_key text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _now timestamptz := asyncjobs.moment();  -- it may be a caller's commit
BEGIN
    RETURN QUERY
    WITH idle AS MATERIALIZED (
        SELECT k.key, k.after FROM (
            SELECT u.key, coalesce(max(u.after), 0) AS after FROM unnest(_keys, _after) AS u(key, after) GROUP BY u.key) AS k
        WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = ANY (ARRAY[k.key]) AND d.job_id IS NOT NULL)
          AND NOT (_any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = k.key))),
    head AS MATERIALIZED (
        SELECT coalesce(
            (SELECT s.id FROM asyncjobs.serialized_jobs AS s
             WHERE s.serialization_key = idle.key AND s.job_id IS NULL AND s.place > idle.after AND s.place < idle.after + 1000
             ORDER BY s.place LIMIT 1 FOR UPDATE),
            (SELECT s.id FROM asyncjobs.serialized_jobs AS s
             WHERE s.serialization_key = idle.key AND s.job_id IS NULL AND s.place > idle.after
             ORDER BY s.place LIMIT 1 FOR UPDATE)) AS id FROM idle),
    dispatched AS (
        UPDATE asyncjobs.serialized_jobs AS s SET job_id = s.id, dispatched_at = _now
        FROM head WHERE s.id = ANY (ARRAY[head.id])
        RETURNING s.id, s.queue, s.lane, s.type, s.version, s.payload, s.priority, s.max_attempts, s.timeout, s.scheduled_at,
            s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, s.on_dead, s.enqueue_token,
            s.requeued_from, s.trace_context, s.created_at)
    -- A job that was delayed or retried already has its row in `jobs`, as `waiting`.
    INSERT INTO asyncjobs.jobs AS j (id, queue, lane, type, version, payload, priority, max_attempts, timeout, scheduled_at,
        correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, enqueue_token, requeued_from,
        trace_context, created_at, run_at, status)
    SELECT d.id, d.queue, d.lane, d.type, d.version, d.payload, d.priority, d.max_attempts, d.timeout, d.scheduled_at,
        d.correlation_id, d.parent_job_id, d.created_by, d.dedup_key, d.serialization_key, d.on_dead, d.enqueue_token,
        d.requeued_from, d.trace_context, d.created_at, _now,
        CASE WHEN _any_paused AND asyncjobs.is_paused(d.type, NULL) THEN 'paused' ELSE 'pending' END
    FROM dispatched AS d
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, place = nextval('asyncjobs.place_seq'), updated_at = _now
        WHERE j.status = 'waiting'
    RETURNING j.id, j.serialization_key;
END $$;

-- Under SERIALIZABLE every look into an index conflicts with whoever inserts beside it: any two transactions that enqueued keyed jobs
-- at the same time would fail one of them. So nothing is looked for there: the row is found by its ctid, and the slots to lock
-- were noted by the inserts, in a setting that ends (and rolls back to savepoints) with the transaction.
CREATE FUNCTION asyncjobs.note_joining(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'serializable' THEN
        PERFORM set_config('asyncjobs_joining.slots', ARRAY(
            SELECT unnest(asyncjobs.key_slots(array_remove(_keys, NULL)))
            UNION SELECT unnest(nullif(current_setting('asyncjobs_joining.slots', true), '')::integer[]) ORDER BY 1)::text, true);
    END IF;
END $$;

CREATE FUNCTION asyncjobs.join_key(_id bigint, _ctid tid, _key text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _place bigint;
BEGIN
    -- For the first row all keys are locked, in order; what was inserted past `note_joining` is locked by itself.
    PERFORM pg_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), slots.slot)
    FROM unnest(nullif(current_setting('asyncjobs_joining.slots', true), '')::integer[]) AS slots(slot);
    PERFORM set_config('asyncjobs_joining.slots', '', true);
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    _place := nextval('asyncjobs.place_seq');
    UPDATE asyncjobs.serialized_jobs AS s SET place = _place WHERE s.ctid = _ctid AND s.id = _id AND s.place IS NULL;
    IF NOT FOUND THEN  -- it was updated since
        UPDATE asyncjobs.serialized_jobs AS s SET place = _place WHERE s.id = _id AND s.place IS NULL;
    END IF;
    PERFORM asyncjobs.request_dispatch(ARRAY[_key]);
END $$;

-- At the commit of a caller's transaction: its keyed rows join their lines, in commit order. An open transaction thus blocks nobody.
CREATE FUNCTION asyncjobs.join_keys() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[];
BEGIN
    IF current_setting('transaction_isolation') = 'serializable' THEN
        PERFORM asyncjobs.join_key(NEW.id, NEW.ctid, NEW.serialization_key);
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT s.serialization_key) INTO _keys FROM asyncjobs.serialized_jobs AS s WHERE s.place IS NULL;
    IF _keys IS NULL THEN
        RETURN NULL;  -- an earlier row of this transaction brought them all in
    END IF;
    PERFORM asyncjobs.lock_joining();
    PERFORM asyncjobs.check_places(_keys);
    UPDATE asyncjobs.serialized_jobs AS s SET place = q.place
    FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
          FROM (SELECT x.id FROM asyncjobs.serialized_jobs AS x WHERE x.place IS NULL ORDER BY x.id) AS o) AS q
    WHERE s.id = ANY (ARRAY[q.id]);
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM asyncjobs.dispatch_keys(_keys);
    ELSE
        -- Under a snapshot older than the lock this could not see what others dispatched: a serializer does it after the commit.
        PERFORM asyncjobs.request_dispatch(_keys);
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.join_keys() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER serialized_jobs_join AFTER INSERT ON asyncjobs.serialized_jobs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.place IS NULL) EXECUTE FUNCTION asyncjobs.join_keys();

-- Free the dedup keys of jobs that ended; a key with a later expiry stays taken until then.
CREATE FUNCTION asyncjobs.end_dedup(_ids bigint[]) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH ended AS MATERIALIZED (
        SELECT j.id, j.type, j.dedup_key FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.dedup_key IS NOT NULL ORDER BY j.type, j.dedup_key),
    kept AS (
        UPDATE asyncjobs.dedup_keys AS d SET live = false FROM ended AS e
        WHERE d.type = ANY (ARRAY[e.type]) AND d.dedup_key = ANY (ARRAY[e.dedup_key]) AND d.job_id = e.id AND d.expires_at > asyncjobs.clock())
    DELETE FROM asyncjobs.dedup_keys AS d USING ended AS e
    WHERE d.type = ANY (ARRAY[e.type]) AND d.dedup_key = ANY (ARRAY[e.dedup_key]) AND d.job_id = e.id
      AND (d.expires_at IS NULL OR d.expires_at <= asyncjobs.clock());
END;
