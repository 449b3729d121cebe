-- The folders' statement: fold what was left behind at gates, at most `_limit` of them, but for those `_aside`; or at `_only` these. `more`:
-- there are others, or some that others have locked. `queues`: of each job that became pending.
CREATE FUNCTION asyncjobs.fold_left_over(
    _limit integer, _aside bigint[] DEFAULT '{}', _only bigint[] DEFAULT NULL, OUT gates integer, OUT queues text[], OUT more boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _found bigint[];
    _ours bigint[];
    _releasing bigint[];
    _pending bigint[];
BEGIN
    _found := coalesce(_only, asyncjobs.left_over_gates(_limit, _aside));
    gates := 0;
    more := false;
    IF _found IS NULL THEN
        RETURN;
    END IF;
    _ours := asyncjobs.try_lock_gates(_found);
    _releasing := ARRAY(SELECT g.id FROM asyncjobs.gates AS g WHERE g.id = ANY (_ours) AND g.releasing);
    _pending := asyncjobs.count_arrivals(_ours, NULL, false);
    IF cardinality(_releasing) > 0 THEN
        _pending := _pending || asyncjobs.go_on_releasing(_releasing);
    END IF;
    gates := cardinality(_ours);
    more := cardinality(_ours) < cardinality(_found) OR cardinality(_found) >= _limit;
    queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending));
END $$;
