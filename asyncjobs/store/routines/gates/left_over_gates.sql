-- At most `_limit` gates at which something was left behind: arrivals, or dependents that they have not done with; without those `_aside`. Null: none.
CREATE FUNCTION asyncjobs.left_over_gates(_limit integer, _aside bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    _limit := _limit + cardinality(_aside);
    RETURN (
        WITH RECURSIVE left_over(gate_id, number) AS (  -- one look for each gate, however much lies there
            (SELECT a.gate_id, 1 FROM asyncjobs.arrivals AS a ORDER BY a.gate_id LIMIT least(_limit, 1))
            UNION ALL
            SELECT n.gate_id, l.number + 1 FROM left_over AS l CROSS JOIN LATERAL (
                SELECT a.gate_id FROM asyncjobs.arrivals AS a WHERE a.gate_id > l.gate_id ORDER BY a.gate_id LIMIT 1) AS n
            WHERE l.number < _limit)
        SELECT array_agg(f.gate_id) FROM (
            SELECT l.gate_id FROM left_over AS l
            UNION
            (SELECT g.id FROM asyncjobs.gates AS g WHERE g.releasing ORDER BY g.id LIMIT _limit)) AS f
        WHERE f.gate_id <> ALL (_aside));
END $$;
