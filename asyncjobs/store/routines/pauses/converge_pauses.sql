-- Make the rows say what `pauses` and the runners say, a batch of them: pending jobs of a paused type become paused, paused ones whose
-- type and key are not any more become pending, at the end of the line. Of the latter only those that asyncjobs had made so (`holds`): a
-- row that was written to since the pause was seen to have ended was paused by hand. Ten minutes later the hold is forgotten: nobody who
-- had still seen the pause is about to write. What is dated later than now was written before the clock was set back: perhaps because of
-- the pause, so it is let go. Whoever comes too late for one of several callers finds the row done. Rows that somebody holds are left
-- for the next call. Without bitmaps and sorts, and without the status where the row is locked already: plans made for empty tables
-- would collect all pending jobs, or all paused ones, to find one.
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
            WHERE j.status = 'paused' AND j.type = o.type AND j.version = o.version AND (j.updated_at < o.until OR j.updated_at > _now)
              AND NOT asyncjobs.is_paused(j.type, j.serialization_key)
            ORDER BY j.place LIMIT _batch FOR UPDATE SKIP LOCKED) AS j
        LIMIT _batch)
        UNION ALL
        (SELECT j.id, j.serialization_key FROM asyncjobs.holds AS h CROSS JOIN LATERAL (
            SELECT j.id, j.serialization_key FROM asyncjobs.jobs AS j
            WHERE j.id = ANY (ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
                                    WHERE s.serialization_key = h.name AND s.dispatched_at IS NOT NULL))
              AND j.status = 'paused' AND (j.updated_at < h.ended_at OR j.updated_at > _now) AND j.type = ANY (_served)
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
