-- A scan of a queue that has open keys of limits, or a total: jobs with limits and without, at most `_limit`; at most `_slots` of what counts
-- against a limit, since the others have no slot yet. Which come first, the next job of the key whose turn it is and the first one without a limit
-- decide by their priority and place; what is left is for the others.
CREATE FUNCTION asyncjobs.claim_either(
    _runner bigint, _queue text, _lane text, _limit integer, _slots integer, _from_priority integer, _from_place bigint, _types text[],
    _suspects boolean, _token_base bigint, _token_seq bigint, _versions jsonb, _scan integer)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _is_first boolean;  -- what has a limit
    _count integer;
BEGIN
    _slots := least(_slots, _limit);
    IF EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _queue) THEN  -- all that is claimed counts
        _limit := asyncjobs.limit_room('queue', _queue, _slots);
        _slots := _limit;
    END IF;
    IF coalesce(_limit, 0) <= 0 THEN
        RETURN;
    END IF;
    IF _suspects AND NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.queue = _queue AND t.has_suspects) THEN
        _slots := 0;
    END IF;
    _is_first := _suspects OR asyncjobs.is_limited_first(_queue, _lane, _types);
    FOREACH _is_first IN ARRAY ARRAY[_is_first, NOT _is_first] LOOP
        IF _is_first AND _slots > 0 THEN
            RETURN QUERY SELECT c.* FROM asyncjobs.claim_limited(_runner, _queue, _lane, least(_limit, _slots), _types, _suspects,
                _token_base, _token_seq, _versions, _scan) AS c;
        ELSIF NOT _is_first AND _limit > 0 THEN
            RETURN QUERY SELECT c.* FROM asyncjobs.claim(_runner, _queue, _lane, _limit, _from_priority, _from_place, _types, _suspects,
                _token_base, _token_seq, _versions, _scan) AS c;
        ELSE
            CONTINUE;
        END IF;
        GET DIAGNOSTICS _count = ROW_COUNT;
        _token_seq := _token_seq + _limit;
        _limit := _limit - _count;
        _slots := _slots - _count;
    END LOOP;
END $$;
