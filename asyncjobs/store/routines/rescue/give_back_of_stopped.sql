-- Give back those of these jobs, with their attempts, whose runner stopped by itself: it was not killed by what it still ran, so nothing is
-- said of them. It is what that runner would have written if its handlers had ended. `others`: of runners that died.
CREATE FUNCTION asyncjobs.give_back_of_stopped(
    _ids bigint[], _max_errors integer, OUT others bigint[], OUT given_back bigint[], OUT pending bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    others := _ids;
    given_back := '{}';
    FOR _id IN
        SELECT j.id FROM asyncjobs.jobs AS j JOIN asyncjobs.former_runners AS f ON f.id = j.runner_id
        WHERE j.id = ANY (_ids) AND f.stopped_at IS NOT NULL ORDER BY j.id
    LOOP
        others := array_remove(others, _id);
        BEGIN
            pending := pending || asyncjobs.give_back_stopped(_id, _max_errors);
            given_back := given_back || _id;
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- as in `fail_each`
        END;
    END LOOP;
END $$;
