-- What the promoters do for limits: carry out requests, at most `_batch`, and open what time opens. `queues`: where something may be claimed now.
-- `next_seconds`: when the next key opens; 0 when there may be more.
CREATE FUNCTION asyncjobs.fold_limits(_batch integer, OUT queues text[], OUT next_seconds float8) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _freed text[];
    _keys text[];
    _queues text[];
    _lanes text[];
    _count integer;
BEGIN
    WITH due AS (
        UPDATE asyncjobs.limit_turns AS t SET state = 'open', opens_at = NULL, turned_at = _now
        FROM (SELECT c.key, c.queue, c.lane FROM asyncjobs.limit_turns AS c
              WHERE c.state = 'closed' AND c.opens_at <= _now ORDER BY c.opens_at LIMIT _batch FOR UPDATE SKIP LOCKED) AS c
        WHERE t.key = c.key AND t.queue = c.queue AND t.lane = c.lane RETURNING t.queue)
    SELECT array_agg(DISTINCT d.queue), count(1) INTO queues, _count FROM due AS d;
    IF _count < _batch THEN
        SELECT extract(epoch FROM t.opens_at - _now) INTO next_seconds FROM asyncjobs.limit_turns AS t
        WHERE t.state = 'closed' AND t.opens_at > _now ORDER BY t.opens_at LIMIT 1;
    ELSE
        next_seconds := 0;
    END IF;
    WITH taken AS (
        DELETE FROM asyncjobs.limit_requests AS r
        WHERE r.ctid = ANY (ARRAY(SELECT f.ctid FROM asyncjobs.limit_requests AS f LIMIT _batch FOR UPDATE SKIP LOCKED))
        RETURNING r.key, r.queue, r.lane, r.is_freed)
    SELECT coalesce(array_agg(DISTINCT t.key) FILTER (WHERE t.is_freed), '{}'), coalesce(array_agg(t.key) FILTER (WHERE t.queue <> ''), '{}'),
        array_agg(t.queue) FILTER (WHERE t.queue <> ''), array_agg(t.lane) FILTER (WHERE t.queue <> ''), count(1)
    INTO _freed, _keys, _queues, _lanes, _count FROM taken AS t;
    IF _count > 0 THEN
        queues := queues || asyncjobs.open_turns(_freed, _keys, _queues, _lanes, '{full,closed}');
        PERFORM asyncjobs.note_suspects(_keys);
        next_seconds := CASE WHEN _count < _batch THEN next_seconds ELSE 0 END;
    END IF;
END $$;
