-- `finish_orphan` for each of these; one that a stranger's transaction holds is left to the next pass.
CREATE FUNCTION asyncjobs.finish_orphans(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
    _pending bigint[];
BEGIN
    FOREACH _id IN ARRAY coalesce(_ids, '{}') LOOP
        BEGIN
            _pending := _pending || asyncjobs.finish_orphan(_id);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    RETURN _pending;
END $$;
