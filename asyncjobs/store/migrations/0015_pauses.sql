-- Pauses of queues and types: the claim reads `pauses` and takes nothing of them; this keeps what it would pass over out of its way.

-- Write down a pause. False: it was there. From its commit on no claim that begins takes anything of it; then `wait_for_claims`, or for a
-- key `hold_back_key`.
CREATE FUNCTION asyncjobs.pause(_kind text, _name text, _reason text, _by text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.pauses (kind, name, reason, paused_by) VALUES (_kind, _name, _reason, _by) ON CONFLICT (kind, name) DO NOTHING;
    RETURN FOUND;
END $$;

-- Wait until all claims have ended that are under way now. Each has looked up its runner's row, FOR KEY SHARE, and keeps the table
-- locked in that mode until its end. It takes that lock before its snapshot: one that has not got it yet sees all that is committed by
-- now. So claims pay nothing for this. Error 55P03 after a while.
CREATE FUNCTION asyncjobs.wait_for_claims() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ends_at timestamptz := clock_timestamp() + interval '2 seconds';
    _claims text[] := asyncjobs.claims_under_way();
BEGIN
    WHILE _claims && asyncjobs.claims_under_way() LOOP
        IF clock_timestamp() > _ends_at THEN
            RAISE EXCEPTION 'claims that began before are still under way' USING ERRCODE = 'lock_not_available';
        END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
END $$;

-- The transactions, by their virtual ids, that have the table of runners in the mode that claims have it in.
CREATE FUNCTION asyncjobs.claims_under_way() RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.virtualtransaction FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
          AND l.relation = 'asyncjobs.runners'::regclass AND l.mode = 'RowShareLock' AND l.granted);
END $$;

-- Heads of paused keys that are pending all the same, by somebody's hand, become paused.
CREATE FUNCTION asyncjobs.hold_heads_back(_batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.pauses AS p
        JOIN asyncjobs.serialized_jobs AS s ON s.serialization_key = p.name AND s.job_id IS NOT NULL
        JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[s.id])
        WHERE p.kind = 'key' AND j.status = 'pending' LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    _count integer;
BEGIN
    UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = asyncjobs.clock()
    WHERE j.id = ANY (_heads) AND asyncjobs.is_paused(NULL, j.serialization_key);
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;

-- Whoever changes `pauses`, by a verb or by hand: what rows may be paused for is noted, and the runners bring them in step at once.
CREATE FUNCTION asyncjobs.note_pause() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'DELETE' AND NEW.kind <> 'queue' THEN
        INSERT INTO asyncjobs.holds AS h (kind, name) VALUES (NEW.kind, NEW.name)
        ON CONFLICT (kind, name, version) DO UPDATE SET ended_at = NULL;
    END IF;
    PERFORM asyncjobs.tell('p');
    RETURN NULL;
END $$;
CREATE TRIGGER pauses_note AFTER INSERT OR UPDATE OR DELETE ON asyncjobs.pauses
    FOR EACH ROW EXECUTE FUNCTION asyncjobs.note_pause();

-- Let a queue, a type or a key go on, and with it what was set to `paused` by hand: true when it was paused. (Keys: resume_key, too.)
CREATE FUNCTION asyncjobs.resume(_kind text, _name text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _was_paused boolean;
BEGIN
    DELETE FROM asyncjobs.pauses AS p WHERE p.kind = _kind AND p.name = _name;
    _was_paused := FOUND;
    IF _kind <> 'queue' THEN
        INSERT INTO asyncjobs.holds AS h (kind, name) VALUES (_kind, _name)
        ON CONFLICT (kind, name, version) DO UPDATE SET ended_at = NULL;
    END IF;
    RETURN _was_paused;
END $$;

-- Make the rows say what `pauses` and the runners say, a batch of them: pending jobs of a paused type become paused, paused ones whose
-- type and key are not any more become pending, at the end of the line. Of the latter only those that asyncjobs had made so (`holds`): a
-- row that was written to since the pause was seen to have ended was paused by hand. Ten minutes later the hold is forgotten: nobody who
-- had still seen the pause is about to write. Whoever comes too late for one of several callers finds the
-- row done. Rows that somebody holds are left for the next call. Without bitmaps and sorts, and without the status where the row is
-- locked already: plans made for empty tables would collect all pending jobs, or all paused ones, to find one.
--
-- What no runner can run, since it serves no such type or only older versions of it, is treated like jobs of a paused type where it is in
-- the way: among the first `_window` jobs of a scan of a queue that is served. It comes back when a runner registers that can. What
-- a runner could that was there within `_grace`, and a job that is due for a shorter time, are left alone: most often the runner is
-- just being replaced.
CREATE FUNCTION asyncjobs.converge_pauses(
    _batch integer, _window integer, _grace interval,
    OUT held integer,    -- pending -> paused
    OUT resumed integer, -- paused -> pending
    OUT queues text[],   -- where they became pending
    OUT more boolean)    -- call again: there may be others
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _paused text[] := ARRAY(SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
    _served text[] := ARRAY(
        SELECT t.type FROM asyncjobs.runners AS r CROSS JOIN unnest(r.types) AS t(type)
        WHERE coalesce(r.stopped_at > _now - _grace, true)
        UNION SELECT t.type FROM asyncjobs.former_runners AS f CROSS JOIN unnest(f.types) AS t(type) WHERE f.ended_at > _now - _grace);
    _versions jsonb := (
        SELECT coalesce(jsonb_object_agg(k.type, k.newest), '{}') FROM (
            SELECT v.key AS type, max(v.value::integer) AS newest
            FROM (SELECT r.versions FROM asyncjobs.runners AS r WHERE coalesce(r.stopped_at > _now - _grace, true)
                  UNION ALL SELECT f.versions FROM asyncjobs.former_runners AS f WHERE f.ended_at > _now - _grace) AS r
            CROSS JOIN jsonb_each_text(r.versions) AS v GROUP BY v.key) AS k);
    _ids bigint[];
    _keys text[];
    _unlocked text[];
BEGIN
    -- Before any row of a job: who pauses has the row of `holds` and then wants those.
    UPDATE asyncjobs.holds AS h SET ended_at = _now FROM (
        SELECT o.kind, o.name, o.version FROM asyncjobs.holds AS o
        WHERE o.ended_at IS NULL AND o.kind <> 'unserved'
          AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = o.kind AND p.name = o.name)
        FOR UPDATE OF o SKIP LOCKED) AS e
    WHERE h.kind = e.kind AND h.name = e.name AND h.version = e.version;
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE cardinality(_paused) > 0 AND j.status = 'pending' AND j.type = ANY (_paused) LIMIT _batch FOR UPDATE SKIP LOCKED);
    _ids := _ids || ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY(
            SELECT w.id FROM (SELECT DISTINCT q.queue FROM asyncjobs.runners AS r CROSS JOIN unnest(r.queues) AS q(queue)) AS q
            CROSS JOIN LATERAL (
                (SELECT j.id, j.type, j.version, j.run_at FROM asyncjobs.jobs AS j
                 WHERE j.queue = q.queue AND j.status = 'pending' AND j.suspicion = 0 ORDER BY j.priority, j.place LIMIT _window)
                UNION ALL
                (SELECT j.id, j.type, j.version, j.run_at FROM asyncjobs.jobs AS j
                 WHERE j.queue = q.queue AND j.status = 'pending' AND j.suspicion > 0
                 ORDER BY j.suspicion, j.priority, j.place LIMIT _window)) AS w
            WHERE (w.type <> ALL (_served) OR NOT asyncjobs.can_run(_versions, w.type, w.version)) AND w.run_at < _now - _grace LIMIT _batch))
        AND j.status = 'pending' AND j.id <> ALL (_ids) FOR UPDATE SKIP LOCKED);
    WITH paused AS (
        UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = _now WHERE j.id = ANY (_ids) RETURNING j.type, j.version),
    noted AS (
        INSERT INTO asyncjobs.holds AS h (kind, name, version)
        SELECT DISTINCT 'unserved', p.type, p.version FROM paused AS p WHERE p.type <> ALL (_paused)
        ON CONFLICT (kind, name, version) DO UPDATE SET since = _now)
    SELECT count(1) INTO held FROM paused AS p;
    held := held + asyncjobs.hold_heads_back(_batch);

    -- Types and versions that have paused jobs, each found by a step of its own in the index: those that stay paused are not read.
    WITH RECURSIVE found AS (
        (SELECT j.type, j.version FROM asyncjobs.jobs AS j WHERE j.status = 'paused' ORDER BY j.type, j.version LIMIT 1)
        UNION ALL
        SELECT n.type, n.version FROM found AS f CROSS JOIN LATERAL (
            SELECT j.type, j.version FROM asyncjobs.jobs AS j WHERE j.status = 'paused' AND (j.type, j.version) > (f.type, f.version)
            ORDER BY j.type, j.version LIMIT 1) AS n),
    open AS MATERIALIZED (
        SELECT f.type, f.version, u.until FROM found AS f CROSS JOIN LATERAL (
            SELECT max(CASE h.kind WHEN 'unserved' THEN 'infinity' ELSE h.ended_at END) AS until FROM asyncjobs.holds AS h
            WHERE h.name = f.type AND (h.kind = 'type' OR (h.kind = 'unserved' AND h.version = f.version))) AS u
        WHERE f.type <> ALL (_paused) AND f.type = ANY (_served) AND asyncjobs.can_run(_versions, f.type, f.version)
          AND u.until IS NOT NULL),
    free AS (
        (SELECT j.id, j.serialization_key FROM open AS o CROSS JOIN LATERAL (
            SELECT j.id, j.serialization_key FROM asyncjobs.jobs AS j
            WHERE j.status = 'paused' AND j.type = o.type AND j.version = o.version AND j.updated_at < o.until
              AND NOT asyncjobs.is_paused(j.type, j.serialization_key)
            ORDER BY j.place LIMIT _batch FOR UPDATE SKIP LOCKED) AS j
        LIMIT _batch)
        UNION ALL
        (SELECT j.id, j.serialization_key FROM asyncjobs.holds AS h CROSS JOIN LATERAL (
            SELECT j.id, j.serialization_key FROM asyncjobs.jobs AS j
            WHERE j.id = ANY (ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
                                    WHERE s.serialization_key = h.name AND s.job_id IS NOT NULL))
              AND j.status = 'paused' AND j.updated_at < h.ended_at AND j.type = ANY (_served)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND NOT asyncjobs.is_paused(j.type, j.serialization_key)
            FOR UPDATE SKIP LOCKED) AS j
        WHERE h.kind = 'key' AND h.ended_at IS NOT NULL LIMIT _batch))
    SELECT array_agg(f.id), array_agg(DISTINCT f.serialization_key) FILTER (WHERE f.serialization_key IS NOT NULL)
    INTO _ids, _keys FROM free AS f;
    IF _keys IS NOT NULL THEN
        -- Pausing a key takes its lock: with the lock, and in a new statement, it is certain whether the key is paused.
        _unlocked := ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (asyncjobs.try_lock_keys(_keys)));
    END IF;
    WITH again AS (
        UPDATE asyncjobs.jobs AS j SET status = 'pending', place = nextval('asyncjobs.place_seq'), updated_at = _now
        FROM unnest(_ids) AS u(id)
        WHERE j.id = ANY (ARRAY[u.id]) AND (_keys IS NULL OR j.serialization_key IS NULL
              OR (j.serialization_key <> ALL (_unlocked) AND NOT asyncjobs.is_paused(j.type, j.serialization_key)))
        RETURNING j.queue)
    SELECT count(1), coalesce(array_agg(DISTINCT a.queue), '{}') INTO resumed, queues FROM again AS a;
    more := held > 0 OR resumed >= _batch;
    DELETE FROM asyncjobs.holds AS h
    WHERE h.ended_at < _now - interval '10 minutes' OR (h.kind = 'unserved' AND h.since < _now - interval '10 minutes'
        AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.status = 'paused' AND j.type = h.name AND j.version = h.version));
END $$;
