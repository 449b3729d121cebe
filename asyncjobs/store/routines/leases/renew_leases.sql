-- Renew what the holder believes to hold, in these terms. What it does not hold any more is `lost`; what is locked is neither.
CREATE FUNCTION asyncjobs.renew_leases(
    _holder text, _held text[], _tokens bigint[], _reports jsonb, OUT renewed text[], OUT lost text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT l.job_name FROM unnest(_held, _tokens) AS h(duty, token) JOIN asyncjobs.background_job_leases AS l ON l.job_name = h.duty
        WHERE l.held_by_worker_id = _holder AND l.token = h.token ORDER BY l.job_name FOR NO KEY UPDATE OF l SKIP LOCKED),
    kept AS (
        UPDATE asyncjobs.background_job_leases AS l SET renewals = l.renewals + 1, heartbeat_at = _now,
            metadata = l.metadata || asyncjobs.lease_report(_reports -> l.job_name, _now)
        FROM mine AS m WHERE l.job_name = m.job_name RETURNING l.job_name)
    SELECT coalesce(array_agg(k.job_name), '{}') INTO renewed FROM kept AS k;
    lost := ARRAY(
        SELECT h.duty FROM unnest(_held, _tokens) AS h(duty, token) WHERE h.duty <> ALL (renewed) AND NOT EXISTS (
            SELECT FROM asyncjobs.background_job_leases AS l
            WHERE l.job_name = h.duty AND l.held_by_worker_id = _holder AND l.token = h.token));
END $$;
