-- How far the open key of a limit was served whose turn it is, without these; null: there is none.
CREATE FUNCTION asyncjobs.least_served(_queue text, _name text, _lane text, _without text[]) RETURNS float8 LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT t.served FROM asyncjobs.limit_turns AS t
        WHERE t.queue = _queue AND t.name = _name AND t.lane = _lane AND t.state = 'open' AND t.key <> ALL (_without)
        ORDER BY t.served LIMIT 1);
END $$;
