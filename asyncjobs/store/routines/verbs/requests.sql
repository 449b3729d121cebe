-- What was asked for of the jobs that this runner runs.
CREATE FUNCTION asyncjobs.requests(_runner bigint) RETURNS TABLE (id bigint, token bigint, wanted text, message text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id, j.claim_token, j.requested_outcome, j.request_message FROM asyncjobs.jobs AS j
    WHERE j.runner_id = _runner AND j.status = 'processing' AND j.requested_outcome IS NOT NULL ORDER BY j.id;
END $$;
