-- The folders' statement: fold what was left behind at gates, at most `_limit` of them. `more`: there are others, or some that others have
-- locked. `queues`: of each job that became pending.
CREATE FUNCTION asyncjobs.fold_left_over(_limit integer, OUT gates integer, OUT queues text[], OUT more boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _found bigint[];
    _ours bigint[];
    _releasing bigint[];
    _pending bigint[];
BEGIN
    WITH RECURSIVE left_over(gate_id, number) AS (  -- one look for each gate, however much lies there
        (SELECT a.gate_id, 1 FROM asyncjobs.arrivals AS a ORDER BY a.gate_id LIMIT least(_limit, 1))
        UNION ALL
        SELECT n.gate_id, l.number + 1 FROM left_over AS l CROSS JOIN LATERAL (
            SELECT a.gate_id FROM asyncjobs.arrivals AS a WHERE a.gate_id > l.gate_id ORDER BY a.gate_id LIMIT 1) AS n
        WHERE l.number < _limit)
    SELECT array_agg(f.gate_id) INTO _found FROM (
        SELECT l.gate_id FROM left_over AS l
        UNION
        (SELECT g.id FROM asyncjobs.gates AS g WHERE g.releasing ORDER BY g.id LIMIT _limit)) AS f;
    gates := 0;
    more := false;
    IF _found IS NULL THEN
        RETURN;
    END IF;
    _ours := asyncjobs.try_lock_gates(_found);
    _releasing := ARRAY(SELECT g.id FROM asyncjobs.gates AS g WHERE g.id = ANY (_ours) AND g.releasing);
    _pending := asyncjobs.count_arrivals(_ours, NULL);
    IF cardinality(_releasing) > 0 THEN
        _pending := _pending || asyncjobs.go_on_releasing(_releasing);
    END IF;
    gates := cardinality(_ours);
    more := cardinality(_ours) < cardinality(_found) OR cardinality(_found) >= _limit;
    queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending));
END $$;
