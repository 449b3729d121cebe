-- What a runner has to do: where its schedules are, by the server's clock; also those that failed, which tick again when they can.
-- `led`: those that the runner fires which holds the lease of the duty `cron`; it has not declared the others, or has another definition.
-- `ahead`: those that have to begin anew, since the clock was put back; a minute is no reason, and a look may be older than a tick that
-- it sees. `stale`: hold the rows against what it declares again.
CREATE FUNCTION asyncjobs.look_at_schedules(
    _runner bigint, OUT now timestamptz, OUT names text[], OUT last_ticks timestamptz[], OUT failed text[], OUT led text[], OUT ahead text[],
    OUT declared bigint, OUT stale boolean)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _holder bigint;
BEGIN
    SELECT nullif(l.held_by_worker_id, 'none')::bigint INTO _holder FROM asyncjobs.background_job_leases AS l WHERE l.job_name = 'cron';
    SELECT asyncjobs.clock(), array_agg(s.name ORDER BY s.name) FILTER (WHERE (s.enabled OR s.disabled_because = 'failed') AND s.definition = d.definition),
        array_agg(s.last_tick ORDER BY s.name) FILTER (WHERE (s.enabled OR s.disabled_because = 'failed') AND s.definition = d.definition),
        array_agg(s.name) FILTER (WHERE s.disabled_because = 'failed'),
        array_agg(s.name) FILTER (WHERE h.definition = s.definition),
        array_agg(s.name) FILTER (WHERE s.enabled AND s.definition = d.definition
            AND least(s.unbroken_since, s.last_tick) > asyncjobs.clock() + interval '1 minute' AND isfinite(s.last_tick)),
        count(d.name),
        coalesce(bool_or(s.name IS NULL OR s.definition <> d.definition OR s.disabled_because = 'removed'), false)
    INTO now, names, last_ticks, failed, led, ahead, declared, stale
    FROM asyncjobs.schedule_declarations AS d LEFT JOIN asyncjobs.schedules AS s ON s.name = d.name
    LEFT JOIN asyncjobs.schedule_declarations AS h ON h.runner_id = _holder AND h.name = s.name
    WHERE d.runner_id = _runner;
    stale := stale OR EXISTS (
        SELECT FROM asyncjobs.schedules AS s
        WHERE s.enabled AND NOT EXISTS (SELECT FROM asyncjobs.schedule_declarations AS d WHERE d.name = s.name));
END $$;
