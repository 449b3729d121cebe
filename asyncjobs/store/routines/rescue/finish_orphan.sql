-- A row that is not processing but names a runner that is gone. It ended inside its handler's transaction, and the runner died
-- before it settled the job: that is done here. Or an operator's SQL took it back and left the name, which is taken off.
CREATE FUNCTION asyncjobs.finish_orphan(_id bigint) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
BEGIN
    SELECT j.status INTO _status FROM asyncjobs.jobs AS j
    WHERE j.id = _id AND j.status <> 'processing' AND j.runner_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = j.runner_id)
    FOR UPDATE OF j SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL WHERE j.id = _id;
    PERFORM asyncjobs.request_opening(ARRAY[_id], true);
    IF _status IN ('completed', 'dead', 'cancelled') THEN
        PERFORM asyncjobs.end_dedup(ARRAY[_id]);
        RETURN asyncjobs.let_keys_go(ARRAY[_id]) || asyncjobs.arrive(ARRAY[_id]);
    END IF;
    RETURN NULL;
END $$;
