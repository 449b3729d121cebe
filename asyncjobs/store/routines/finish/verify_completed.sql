-- After the handler of such a job ended: whether its completion was committed. If so the job is settled; `queues`: of each
-- job that became pending. A handler's open transaction is not waited for long: it may never end.
CREATE FUNCTION asyncjobs.verify_completed(_id bigint, _token bigint, OUT completed boolean, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL
    WHERE j.id = _id AND j.claim_token = _token AND j.status = 'completed';
    completed := FOUND;
    IF completed THEN
        PERFORM asyncjobs.request_opening(ARRAY[_id], true);
        PERFORM asyncjobs.end_dedup(ARRAY[_id]);
        _heads := asyncjobs.let_keys_go(ARRAY[_id], '{}') || asyncjobs.arrive(ARRAY[_id]);
        queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
    END IF;
END $$;
