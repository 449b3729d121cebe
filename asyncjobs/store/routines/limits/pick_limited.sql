-- Lock jobs that have limits, for a claim, at most `_limit`: key by key, by their turns, until that is reached, or no key is left that has
-- something. Where they are; the caller writes them. (`claim` has the parameters; it picks those without limits.
-- `_is_cut`: the scan wants more, and has no slots for it.)
CREATE FUNCTION asyncjobs.pick_limited(
    _queue text, _lane text, _limit integer, _types text[], _suspects boolean, _versions jsonb, _is_cut boolean)
RETURNS tid[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _group record;
    _names text[] := '{}';  -- limits that have nothing for this call
    _seen text[] := '{}';   -- the same of keys
    _picked tid[] := '{}';
    _is_any boolean;
BEGIN
    FOR _round IN 1 .. 100 LOOP  -- (a key that other types fill is passed by a round at a time)
        EXIT WHEN cardinality(_picked) >= _limit;
        SELECT array_agg(g.name ORDER BY g.served) AS names, array_agg(g.lane ORDER BY g.served) AS lanes,
            array_agg(g.served ORDER BY g.served) AS served
        INTO _group FROM asyncjobs.limit_groups(_queue, _lane, _names, _seen, _suspects) AS g;
        EXIT WHEN _group.names IS NULL;
        SELECT t._picked, t._seen, t.is_any INTO _picked, _seen, _is_any
        FROM asyncjobs.take_turns(_queue, _group.names[1], _group.lanes[1], _limit, _group.served[2], _types, _suspects, _versions,
            _is_cut, _seen, _picked) AS t;
        IF NOT _is_any THEN
            _names := _names || _group.names[1];
        END IF;
    END LOOP;
    RETURN _picked;
END $$;
