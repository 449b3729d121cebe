-- Claim jobs that have limits, at most `_limit`: key by key, by their turns, until that is reached, or no key is left that has something. As
-- `claim` (the parameters are those), which takes those that have none.
CREATE FUNCTION asyncjobs.claim_limited(
    _runner bigint, _queue text, _lane text, _limit integer, _types text[], _suspects boolean, _token_base bigint, _token_seq bigint,
    _versions jsonb, _scan integer)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _group record;
    _names text[] := '{}';  -- limits that have nothing for this call
    _seen text[] := '{}';   -- the same of keys
    _picked tid[];
    _count integer;
    _any_expired boolean := false;
    _row asyncjobs.answer;
BEGIN
    FOR _round IN 1 .. 100 LOOP  -- (a key that other types fill is passed by a round at a time)
        EXIT WHEN _limit <= 0;
        SELECT array_agg(g.name ORDER BY g.served) AS names, array_agg(g.lane ORDER BY g.served) AS lanes,
            array_agg(g.served ORDER BY g.served) AS served
        INTO _group FROM asyncjobs.limit_groups(_queue, _lane, _names, _seen, _suspects) AS g;
        EXIT WHEN _group.names IS NULL;
        SELECT t.picked, t._seen INTO _picked, _seen
        FROM asyncjobs.take_turns(_queue, _group.names[1], _group.lanes[1], _limit, _group.served[2], _types,
            _suspects, _versions, _seen) AS t;
        IF _picked IS NULL THEN
            _names := _names || _group.names[1];
        END IF;
        CONTINUE WHEN coalesce(cardinality(_picked), 0) = 0;
        RETURN QUERY
        UPDATE asyncjobs.jobs AS j
        SET status = 'processing', attempts = least(j.attempts, 2147483646) + 1, runner_id = _runner, error_message = NULL,
            started_at = greatest(asyncjobs.clock(), j.run_at, j.created_at),  -- as in `claim`
            claim_token = (_token_base << 32) | ((_token_seq + p.number) & 4294967295), updated_at = asyncjobs.clock()
        FROM unnest(_picked) WITH ORDINALITY AS p(ctid, number)
        WHERE j.ctid = p.ctid AND asyncjobs.may_start(j.start_before)
        RETURNING (asyncjobs.claimed(asyncjobs.answer_kind(j.on_dead, j.workflow_id), _scan, j)).*;
        GET DIAGNOSTICS _count = ROW_COUNT;
        _any_expired := _any_expired OR _count < cardinality(_picked);
        _token_seq := _token_seq + cardinality(_picked);
        _limit := _limit - cardinality(_picked);
    END LOOP;
    IF _any_expired THEN
        _row := asyncjobs.expire_pending(_scan, _queue, _lane, -1, -1, _types, true, _versions);
        RETURN NEXT _row;
    END IF;
END $$;
