-- Pending jobs that are to become paused, at most `_batch` of each kind: those of paused types, and what no runner can run, since it
-- serves no such type or only older versions of it, where it is in the way: among the first `_window` jobs of a scan of a queue that is
-- served. A job that is due for a shorter time than `_grace` is left alone. Returns how many.
CREATE FUNCTION asyncjobs.hold_back(_batch integer, _window integer, _grace interval, _paused text[], _served text[], _versions jsonb)
RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _ids bigint[];
    _held integer;
BEGIN
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE cardinality(_paused) > 0 AND j.status = 'pending' AND j.limit_key IS NULL AND j.type = ANY (_paused)
        LIMIT _batch FOR UPDATE SKIP LOCKED)
        || ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE cardinality(_paused) > 0 AND j.status = 'pending' AND j.limit_key IS NOT NULL AND j.type = ANY (_paused)
        LIMIT _batch FOR UPDATE SKIP LOCKED);
    _ids := _ids || ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY(
            SELECT w.id FROM (SELECT DISTINCT q.queue FROM asyncjobs.runners AS r CROSS JOIN unnest(r.queues) AS q(queue)) AS q
            CROSS JOIN LATERAL (
                (SELECT j.id, j.type, j.version, j.run_at FROM asyncjobs.jobs AS j
                 WHERE hashtext(j.queue) = hashtext(q.queue) AND j.queue = q.queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0 ORDER BY j.priority, j.place LIMIT _window)
                UNION ALL
                (SELECT j.id, j.type, j.version, j.run_at FROM asyncjobs.jobs AS j
                 WHERE hashtext(j.queue) = hashtext(q.queue) AND j.queue = q.queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion > 0
                 ORDER BY j.suspicion, j.priority, j.place LIMIT _window)
                UNION ALL
                (SELECT j.id, j.type, j.version, j.run_at FROM (
                    SELECT t.key, t.lane FROM asyncjobs.limit_turns AS t WHERE t.queue = q.queue AND t.state = 'open' AND t.name > ''
                    LIMIT _window) AS t
                 CROSS JOIN LATERAL (
                    SELECT j.id, j.type, j.version, j.run_at FROM asyncjobs.jobs AS j
                    WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = q.queue AND coalesce(j.lane, '') = t.lane
                      AND j.status = 'pending'
                    ORDER BY j.suspicion, j.priority, j.place LIMIT _window) AS j LIMIT _window)) AS w
            WHERE (w.type <> ALL (_served) OR NOT asyncjobs.can_run(_versions, w.type, w.version)) AND w.run_at < _now - _grace LIMIT _batch))
        AND j.status = 'pending' AND j.id <> ALL (_ids) FOR UPDATE SKIP LOCKED);
    WITH paused AS (
        UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = _now WHERE j.id = ANY (_ids) RETURNING j.type, j.version),
    noted AS (
        INSERT INTO asyncjobs.holds AS h (kind, name, version)
        SELECT DISTINCT 'unserved', p.type, p.version FROM paused AS p WHERE p.type <> ALL (_paused)
        ON CONFLICT (kind, name, version) DO UPDATE SET since = _now)
    SELECT count(1) INTO _held FROM paused AS p;
    RETURN _held + asyncjobs.hold_heads_back(_batch);
END $$;
