-- Paused jobs that are to become pending, behind what is pending, a batch of them: runners can run them, their types and keys are not
-- paused any more, and they were made so by asyncjobs (`holds`), not by hand.
CREATE FUNCTION asyncjobs.let_go(_batch integer, _paused text[], _served text[], _versions jsonb, OUT resumed integer, OUT queues text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _ids bigint[];
    _keys text[];
    _unlocked text[];
BEGIN
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
    PERFORM asyncjobs.request_opening(_ids, false);
END $$;
