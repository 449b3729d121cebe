-- Take what is free of `_served`, and what the holder saw unchanged (`_tried`) for long, or that is not renewed any more; returns these.
--
-- A taker locks the row FOR UPDATE before it writes, which a pass that holds it (FOR KEY SHARE) keeps out, and which keeps such a pass
-- out: the UPDATE alone changes no key, and would let it through with the old token. It compares again in a new statement, under the lock.
-- What is free is taken without having been observed, and so is what this runner holds without knowing it: the answer was lost.
CREATE FUNCTION asyncjobs.take_leases(
    _holder text, _held text[], _served text[], _new_tokens bigint[], _tried text[], _tried_tokens bigint[], _tried_renewals bigint[],
    _tried_long boolean[], _expiry interval)
RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _free text[];
    _takes text[];
    _acquired text[] := '{}';
BEGIN
    _free := ARRAY(
        SELECT l.job_name FROM asyncjobs.background_job_leases AS l
        WHERE l.job_name = ANY (_served) AND l.held_by_worker_id IN ('none', _holder) AND l.job_name <> ALL (_held)
        ORDER BY l.job_name FOR UPDATE OF l SKIP LOCKED);
    _takes := _free || ARRAY(
        SELECT l.job_name FROM unnest(_tried, _tried_tokens, _tried_renewals, _tried_long) AS t(duty, token, renewals, is_long)
        JOIN asyncjobs.background_job_leases AS l ON l.job_name = t.duty AND l.token = t.token AND l.renewals = t.renewals
        WHERE l.held_by_worker_id NOT IN ('none', _holder) AND (t.is_long OR l.heartbeat_at <= _now - _expiry)
        ORDER BY l.job_name FOR UPDATE OF l SKIP LOCKED);
    IF cardinality(_takes) > 0 THEN
        WITH taken AS (
            UPDATE asyncjobs.background_job_leases AS l
            SET held_by_worker_id = _holder, token = s.token, renewals = 0, lease_acquired_at = _now, heartbeat_at = _now,
                metadata = l.metadata || jsonb_build_object('last_run', _now)
            FROM unnest(_served, _new_tokens) AS s(duty, token)
            WHERE l.job_name = s.duty AND l.job_name = ANY (_takes)
              AND (l.held_by_worker_id IN ('none', _holder) OR EXISTS (
                  SELECT FROM unnest(_tried, _tried_tokens, _tried_renewals) AS t(duty, token, renewals)
                  WHERE t.duty = l.job_name AND t.token = l.token AND t.renewals = l.renewals))
            RETURNING l.job_name)
        SELECT array_agg(t.job_name) INTO _acquired FROM taken AS t;
    END IF;
    RETURN _acquired;
END $$;
