-- Whether something arrived at a gate of this workflow that is not counted, or a gate has not done with its dependents: then members may come
-- back yet that count as ended. What is folded goes with its commit, and what that leaves is there with it: so at no instant it seems done.
CREATE FUNCTION asyncjobs.has_left_over(_workflow bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM asyncjobs.gates AS g WHERE g.workflow_id = _workflow
        AND (g.releasing OR EXISTS (SELECT FROM asyncjobs.arrivals AS a WHERE a.gate_id = g.id)));
END $$;
