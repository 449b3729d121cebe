-- Claim at most `_limit` pending jobs of a queue: of one lane, or of any when `_lane` is null; from the front, or from behind
-- (`_from_priority`, `_from_place`). A priority of -32769: the queue has ageing, and the place is what a level of priority is worth, in microseconds
-- (`pick_aged`). `_suspects` asks for suspects (routines/rescue), else only others are taken.
-- It locks exactly the rows it takes; those of them that have expired it ends (routines/expiry). `_versions`: the newest payload of each
-- type that the runner can run. `_slots`, where the queue has open keys of limits or a total: how many of what it takes can start at once
-- (routines/limits). `_ahead`: how many followers of heads it may take, of what is left of `_limit` (_chapter).
CREATE FUNCTION asyncjobs.claim(
    _runner bigint, _queue text, _lane text, _limit integer, _from_priority integer, _from_place bigint, _types text[],
    _suspects boolean, _token_base bigint, _token_seq bigint, _versions jsonb DEFAULT '{}', _scan integer DEFAULT NULL, _slots integer DEFAULT NULL,
    _ahead integer DEFAULT 0)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _picked tid[];  -- locked, so they stay where they are
    _limited tid[]; _is_first boolean;  -- of what has a limit
    _leaders bigint[];  -- heads of keys among them, where there is room for followers
    _count integer; _row asyncjobs.answer;
BEGIN
    IF _slots IS NOT NULL THEN
        SELECT s.room, s.slots, s.is_first INTO _limit, _slots, _is_first FROM asyncjobs.limited_share(_queue, _lane, _limit, _slots, _types, _suspects,
            CASE _from_priority WHEN -32769 THEN _from_place END, _versions) AS s;
        IF _is_first THEN
            _limited := asyncjobs.pick_limited(_queue, _lane, _slots, _types, _suspects, _versions, _slots < _limit);
            _limit := _limit - cardinality(_limited);
        END IF;
    END IF;
    IF _suspects THEN
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion > 0 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND (_lane IS NULL OR j.lane = _lane)
            ORDER BY j.suspicion, j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    ELSIF _from_priority = -32769 THEN
        _picked := asyncjobs.pick_aged(_queue, _lane, _from_place, _limit, _types, _versions);
    ELSIF _lane IS NULL THEN
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND (j.priority, j.place) > (_from_priority, _from_place)
              AND j.suspicion = 0 AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    ELSE
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NULL AND j.queue = _queue AND coalesce(j.lane, '') = _lane AND j.lane IS NOT NULL
              AND j.status = 'pending' AND (j.priority, j.place) > (_from_priority, _from_place) AND j.suspicion = 0 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.limit_key, j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    END IF;
    IF _is_first THEN
        _picked := _limited || _picked;
    ELSIF _slots > 0 AND cardinality(_picked) < _limit THEN
        _limit := _limit - cardinality(_picked);
        _picked := _picked || asyncjobs.pick_limited(_queue, _lane, least(_slots, _limit), _types, _suspects, _versions, _slots < _limit);
    END IF;
    IF cardinality(_picked) = 0 THEN RETURN; END IF;
    IF _ahead > 0 AND cardinality(_picked) < _limit THEN
        _leaders := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.ctid = ANY (_picked) AND j.serialization_key IS NOT NULL);
    END IF;
    RETURN QUERY UPDATE asyncjobs.jobs AS j
    SET status = 'processing', attempts = least(j.attempts, 2147483646) + 1, runner_id = _runner, error_message = NULL,
        -- (a job that was enqueued after this transaction had begun did not start before it was there)
        started_at = greatest(asyncjobs.clock(), j.run_at, j.created_at),
        claim_token = (_token_base << 32) | ((_token_seq + p.number) & 4294967295), updated_at = asyncjobs.clock()
    FROM unnest(_picked) WITH ORDINALITY AS p(ctid, number)
    WHERE j.ctid = p.ctid AND asyncjobs.may_start(j.start_before)
    RETURNING (asyncjobs.claimed(asyncjobs.answer_kind(j.on_dead, j.workflow_id, j.limit_key COLLATE "default"), _scan, j)).*;
    GET DIAGNOSTICS _count = ROW_COUNT;
    IF _count < cardinality(_picked) THEN
        _row := asyncjobs.expire_pending(_scan, _queue, _lane, _from_priority, _from_place, _types, _suspects, _versions);
        RETURN NEXT _row;
    END IF;
    IF cardinality(_leaders) > 0 THEN
        RETURN QUERY SELECT r.* FROM asyncjobs.claim_followers(_runner, _queue, _leaders, least(_limit - cardinality(_picked), _ahead), _types, _versions,
            _scan, _token_base, _token_seq + cardinality(_picked)) AS r;
    END IF;
END $$;
