-- `fail_lost` for jobs that end and thereby free a dedup key: they may have to wait for an enqueue that looks at it, so each is done by itself.
CREATE FUNCTION asyncjobs.fail_each(
    _ids bigint[], _runners bigint[], _blamed bigint[], _max_errors integer, OUT failed bigint[], OUT pending bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    FOREACH _id IN ARRAY _ids LOOP
        BEGIN
            pending := pending || asyncjobs.fail_lost(ARRAY[_id], _runners, _blamed, _max_errors);
            failed := failed || _id;
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- a stranger's transaction holds it: the job is as before, and an orphan of the next pass
        END;
    END LOOP;
END $$;
