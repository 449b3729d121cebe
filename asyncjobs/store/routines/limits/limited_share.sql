-- How a scan of a queue that has open keys of limits, or a total, is shared out: `room`, how many jobs it may take in all; `slots`, of these at
-- most what has a limit, since the others have no slot yet; and whether those are first: the next job of the key whose turn it is and the first job
-- without a limit decide that by their priority and place, or (`_ageing`) by age. What is left is for the others.
CREATE FUNCTION asyncjobs.limited_share(
    _queue text, _lane text, _limit integer, _slots integer, _types text[], _suspects boolean, _ageing bigint, _versions jsonb,
    OUT room integer, OUT slots integer, OUT is_first boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    room := _limit;
    slots := greatest(least(_slots, _limit), 0);
    IF EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _queue) THEN  -- all that is claimed counts
        room := coalesce(asyncjobs.limit_room('queue', _queue, slots), 0);
        slots := room;
    END IF;
    IF _suspects AND NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.queue = _queue AND t.has_suspects) THEN
        slots := 0;
    END IF;
    is_first := slots > 0 AND (_suspects OR asyncjobs.is_limited_first(_queue, _lane, _types, _ageing, _versions));
END $$;
