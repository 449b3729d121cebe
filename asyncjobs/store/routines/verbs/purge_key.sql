-- Cancel at most `_limit` jobs that wait for this key, from the end of the line. The head is a job like any other: end_job.
CREATE FUNCTION asyncjobs.purge_key(_key text, _message text, _limit integer, OUT cancelled bigint[], OUT head_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    cancelled := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = _key AND s.dispatched_at IS NULL AND s.place IS NOT NULL ORDER BY s.place DESC LIMIT _limit FOR UPDATE);
    PERFORM asyncjobs.end_waiting(cancelled, 'cancelled', _message, 0);
    SELECT s.id INTO head_id FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL AND s.halted_at IS NULL;
END $$;
