-- Let go the key of a job that is gone or final, after looking again under the lock of its row. Returns the queue of each job that became
-- pending.
CREATE FUNCTION asyncjobs.release_ended(_id bigint) RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
    _runner bigint;
    _heads bigint[];
BEGIN
    SELECT j.status, j.runner_id INTO _status, _runner FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
    IF FOUND AND (_status NOT IN ('completed', 'dead', 'cancelled') OR EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = _runner)) THEN
        RETURN NULL;
    END IF;
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL WHERE j.id = _id AND j.runner_id IS NOT NULL;
    PERFORM asyncjobs.end_dedup(ARRAY[_id]);
    _heads := asyncjobs.let_keys_go(ARRAY[_id]) || asyncjobs.arrive(ARRAY[_id]);
    RETURN ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;
