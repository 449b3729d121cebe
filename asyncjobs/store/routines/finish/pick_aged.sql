-- Lock jobs for a claim from a queue with ageing, at most `_limit`: by the instant at which each became ready and the time that its priority is
-- worth (`_ageing` microseconds a level), within a priority by place. So one that waits comes before what is more urgent, and became ready
-- later, by then. What others have locked is passed over; where a priority has no more than that, others are asked for the rest.
CREATE FUNCTION asyncjobs.pick_aged(_queue text, _lane text, _ageing bigint, _limit integer, _types text[], _versions jsonb)
RETURNS tid[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _picked tid[] := '{}';
    _spent integer[] := '{}';  -- priorities that have nothing more for this call
    _level record;
    _found tid[];
    _is_short boolean;
BEGIN
    LOOP
        _is_short := false;
        FOR _level IN SELECT a.priority, a.count FROM asyncjobs.aged_levels(
            _queue, _lane, _ageing, _limit - cardinality(_picked), _types, _versions, _spent, _picked) AS a LOOP
            _found := CASE WHEN _lane IS NULL THEN ARRAY(
                SELECT j.ctid FROM asyncjobs.jobs AS j
                WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0 AND j.priority = _level.priority
                  AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version) AND j.ctid <> ALL (_picked)
                ORDER BY j.place LIMIT _level.count FOR UPDATE SKIP LOCKED)
            ELSE ARRAY(
                SELECT j.ctid FROM asyncjobs.jobs AS j
                WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NULL AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.lane IS NOT NULL AND j.status = 'pending' AND j.suspicion = 0
                  AND j.priority = _level.priority AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version)
                  AND j.ctid <> ALL (_picked)
                ORDER BY j.limit_key, j.place LIMIT _level.count FOR UPDATE SKIP LOCKED)
            END;
            _picked := _picked || _found;
            IF cardinality(_found) < _level.count THEN
                _spent := _spent || _level.priority;
                _is_short := true;
            END IF;
        END LOOP;
        EXIT WHEN NOT _is_short;
    END LOOP;
    RETURN _picked;
END $$;
