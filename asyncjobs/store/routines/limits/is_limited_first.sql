-- Whether the next job of the key whose turn it is comes before the first that has no limit: by priority and place, or (`_ageing`) by age.
CREATE FUNCTION asyncjobs.is_limited_first(_queue text, _lane text, _types text[], _ageing bigint, _versions jsonb) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _priority integer;
    _place bigint;
    _at timestamptz;
    _name text;
    _of text;
    _key text;
BEGIN
    IF _ageing IS NULL THEN
        SELECT j.priority, j.place INTO _priority, _place FROM asyncjobs.jobs AS j
        WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0 AND j.type = ANY (_types)
        ORDER BY j.priority, j.place LIMIT 1;
    ELSE
        SELECT a.at INTO _at FROM asyncjobs.aged_levels(_queue, _lane, _ageing, 1, _types, _versions, '{}', '{}') AS a;
    END IF;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    SELECT g.name, g.lane INTO _name, _of FROM asyncjobs.limit_groups(_queue, _lane, '{}', '{}') AS g ORDER BY g.served LIMIT 1;
    SELECT t.key INTO _key FROM asyncjobs.limit_turns AS t
    WHERE t.queue = _queue AND t.name = _name AND t.lane = _of AND t.state = 'open' ORDER BY t.served LIMIT 1;
    RETURN coalesce((
        SELECT CASE WHEN _ageing IS NULL THEN (j.priority, j.place) < (_priority, _place)
            ELSE j.run_at + j.priority * _ageing * interval '1 us' < _at END
        FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = _key AND j.queue = _queue AND coalesce(j.lane, '') = _of
          AND j.status = 'pending' AND j.suspicion = 0
        ORDER BY j.priority, j.place LIMIT 1), false);
END $$;
