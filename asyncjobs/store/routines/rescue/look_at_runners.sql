-- Every runner's beat, and whether a job names a runner that does not exist: all that a rescuer has to know, in one statement. The
-- jobs are looked for in the gaps between the ids of the runners, so that neither jobs in flight are read nor the dead entries
-- that acks leave in the index under the ids of living runners: the cost is one descent per runner.
CREATE FUNCTION asyncjobs.look_at_runners(OUT ids bigint[], OUT beats bigint[], OUT machines text[], OUT pids integer[], OUT orphans boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT coalesce(array_agg(r.id ORDER BY r.id), '{}'), coalesce(array_agg(r.beat ORDER BY r.id), '{}'),
        coalesce(array_agg(r.machine ORDER BY r.id), '{}'), coalesce(array_agg(r.pid ORDER BY r.id), '{}') INTO ids, beats, machines, pids
    FROM asyncjobs.runners AS r;
    orphans := EXISTS (SELECT FROM asyncjobs.orphans(1));
END $$;
