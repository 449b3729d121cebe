-- Free leases by holder and token. One living runner that can do them is named: it is woken, and no other.
CREATE FUNCTION asyncjobs.release_leases(_runner bigint, _duties text[], _tokens bigint[], _reports jsonb, _fresh interval,
    OUT released text[], OUT successor bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT l.job_name FROM unnest(_duties, _tokens) AS h(duty, token) JOIN asyncjobs.background_job_leases AS l ON l.job_name = h.duty
        WHERE l.held_by_worker_id = _runner::text AND l.token = h.token ORDER BY l.job_name FOR UPDATE OF l),
    freed AS (
        UPDATE asyncjobs.background_job_leases AS l SET held_by_worker_id = 'none',
            metadata = l.metadata || asyncjobs.lease_report(_reports -> l.job_name, _now)
        FROM mine AS m WHERE l.job_name = m.job_name RETURNING l.job_name)
    SELECT coalesce(array_agg(f.job_name), '{}') INTO released FROM freed AS f;
    SELECT r.id INTO successor FROM asyncjobs.runners AS r
    WHERE r.id <> _runner AND r.beat_at > _now - _fresh AND r.stopped_at IS NULL AND r.duties && released
    ORDER BY cardinality(ARRAY(SELECT d.duty FROM unnest(r.duties) AS d(duty) WHERE d.duty = ANY (released))) DESC, r.id LIMIT 1;
END $$;
