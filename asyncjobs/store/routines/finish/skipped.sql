-- Which of these scans (a queue, and a lane of it or null) would find a job if no rows were locked: what was skipped by one that came
-- back short is still there, or has been let go since. What became pending in this moment is left out: those that were called for it are about
-- to claim it (runtime/herd.py), and at 150 jobs a second every other look would find such a job. Each looks behind its (priority, place),
-- null: at the front (`model/scan.py`), and at all suspects.
CREATE FUNCTION asyncjobs.skipped(
    _runner bigint, _queues text[], _lanes text[], _types text[], _suspects boolean, _priorities integer[] DEFAULT NULL, _places bigint[] DEFAULT NULL)
RETURNS TABLE (queue text, lane text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _versions jsonb := (SELECT r.versions FROM asyncjobs.runners AS r WHERE r.id = _runner);
    _queue text;
    _lane text;
    _priority integer; _place bigint;
    _now timestamptz := asyncjobs.clock();
    _lately timestamptz := _now - interval '15 ms';
BEGIN
    IF _any_paused THEN
        _types := ARRAY(SELECT t.type FROM unnest(_types) AS t(type)
            EXCEPT SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
    END IF;
    FOR _queue, _lane, _priority, _place IN
        SELECT s.queue, s.lane, coalesce(s.priority, -32768), coalesce(s.place, -1) FROM unnest(_queues, _lanes, _priorities, _places) AS s(queue, lane, priority, place)
    LOOP
        CONTINUE WHEN _any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'all' OR (p.kind = 'queue' AND p.name = _queue));
        IF _lane IS NULL THEN
            PERFORM FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0
              AND (j.priority, j.place) > (_priority, _place) AND j.type = ANY (_types) AND j.updated_at NOT BETWEEN _lately AND _now AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        ELSE
            PERFORM FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NULL AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.lane IS NOT NULL AND j.status = 'pending' AND j.suspicion = 0 AND (j.priority, j.place) > (_priority, _place)
              AND j.type = ANY (_types) AND j.updated_at NOT BETWEEN _lately AND _now AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        END IF;
        IF NOT FOUND AND _suspects THEN
            PERFORM FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion > 0
              AND (_lane IS NULL OR j.lane = _lane) AND j.type = ANY (_types)
              AND j.updated_at NOT BETWEEN _lately AND _now AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        END IF;
        IF NOT FOUND AND EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.queue = _queue AND t.state = 'open') THEN
            PERFORM FROM asyncjobs.limit_groups(_queue, _lane, '{}', '{}') AS g CROSS JOIN LATERAL (
                SELECT t.key FROM asyncjobs.limit_turns AS t
                WHERE t.queue = _queue AND t.name = g.name AND t.lane = g.lane AND t.state = 'open' ORDER BY t.served LIMIT 20) AS t
            JOIN asyncjobs.jobs AS j ON asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = _queue AND coalesce(j.lane, '') = g.lane
            WHERE j.status = 'pending' AND (_suspects OR j.suspicion = 0) AND j.type = ANY (_types)
              AND j.updated_at NOT BETWEEN _lately AND _now AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        END IF;
        IF FOUND THEN
            queue := _queue;
            lane := _lane;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
