-- A page of keys behind `_after`, with what an operator wants to know of each.
CREATE FUNCTION asyncjobs.list_keys(_after text, _limit integer, _only text)
RETURNS TABLE (key text, depth bigint, head_id bigint, head_type text, head_status text, head_since timestamptz, oldest_at timestamptz,
    halted_at timestamptz, halt_reason text, paused_at timestamptz, pause_reason text, runner_id bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE keys(key, number) AS (
        (SELECT s.serialization_key, 1 FROM asyncjobs.serialized_jobs AS s
         WHERE s.serialization_key > _after AND (_only IS NULL OR s.serialization_key = _only) ORDER BY s.serialization_key LIMIT 1)
        UNION ALL
        SELECT n.key, k.number + 1 FROM keys AS k CROSS JOIN LATERAL (
            SELECT s.serialization_key AS key FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key > k.key ORDER BY s.serialization_key LIMIT 1) AS n
        WHERE k.number < _limit AND _only IS NULL)
    SELECT k.key, c.depth, h.id, coalesce(j.type, '?'), coalesce(j.status, 'waiting'),
        coalesce(j.started_at, h.dispatched_at, j.created_at, asyncjobs.clock()), coalesce(j.created_at, h.dispatched_at, asyncjobs.clock()),
        h.halted_at, h.halt_reason, p.paused_at, p.reason, j.runner_id
    FROM keys AS k
    CROSS JOIN LATERAL (SELECT count(*) AS depth FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = k.key) AS c
    CROSS JOIN LATERAL (SELECT s.id, s.dispatched_at, s.halted_at, s.halt_reason FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key ORDER BY s.dispatched_at IS NULL, s.place LIMIT 1) AS h
    LEFT JOIN asyncjobs.jobs AS j ON j.id = h.id
    LEFT JOIN asyncjobs.pauses AS p ON p.kind = 'key' AND p.name = k.key
    ORDER BY k.number;
END $$;
