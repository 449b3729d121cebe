-- Lock jobs that have limits, for a claim, at most `_limit`: key by key, by their turns, until that is reached, or no key is left that has
-- something. Where they are; the caller writes them. (`claim` has the parameters; it picks those without limits.)
CREATE FUNCTION asyncjobs.pick_limited(
    _queue text, _lane text, _limit integer, _types text[], _suspects boolean, _versions jsonb)
RETURNS tid[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _group record;
    _names text[] := '{}';  -- limits that have nothing for this call
    _seen text[] := '{}';   -- the same of keys
    _picked tid[] := '{}';
    _taken record;
BEGIN
    FOR _round IN 1 .. 100 LOOP  -- (a key that other types fill is passed by a round at a time)
        EXIT WHEN cardinality(_picked) >= _limit;
        SELECT g.name, g.lane, g.total, g.each, g.every, g.burst, g.weight, lead(g.served) OVER (ORDER BY g.served) AS ahead
        INTO _group FROM asyncjobs.limit_groups(_queue, _lane, _names, _seen, _suspects) AS g ORDER BY g.served LIMIT 1;
        EXIT WHEN NOT FOUND;
        _taken := asyncjobs.take_turns(_queue, _group.name, _group.lane, _limit, _group.ahead, _types, _suspects, _versions,
            _group.total, _group.each, _group.every, _group.burst, _group.weight, _seen, _picked);
        _seen := _taken._seen;
        _picked := _taken._picked;
        IF NOT _taken.is_any THEN
            _names := _names || _group.name;
        END IF;
    END LOOP;
    RETURN _picked;
END $$;
