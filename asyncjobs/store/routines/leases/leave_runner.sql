-- A runner that stops on its own moves to the former ones, without a death, and frees what it holds, but for duties whose
-- passes have not ended. Twice is the same as once.
CREATE FUNCTION asyncjobs.leave_runner(_runner bigint, _kept text[], _fresh interval, OUT successor bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _duties text[];
    _tokens bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.runners AS r WHERE r.id = _runner
        RETURNING r.id, r.started_at, r.stopped_at, r.host, r.pid, r.version, r.queues, r.types, r.versions, r.duties, r.name)
    INSERT INTO asyncjobs.former_runners (id, started_at, stopped_at, host, pid, version, queues, types, versions, duties, name)
    SELECT g.id, g.started_at, coalesce(g.stopped_at, asyncjobs.clock()), g.host, g.pid, g.version, g.queues, g.types, g.versions, g.duties,
        g.name
    FROM gone AS g;
    SELECT array_agg(l.job_name), array_agg(l.token) INTO _duties, _tokens FROM asyncjobs.background_job_leases AS l
    WHERE l.held_by_worker_id = _runner::text AND l.job_name <> ALL (_kept);
    IF _duties IS NOT NULL THEN
        SELECT l.successor INTO successor FROM asyncjobs.release_leases(_runner, _duties, _tokens, '{}', _fresh) AS l;
    END IF;
END $$;
