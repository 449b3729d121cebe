-- Delete definitions that have to go. Looked at once more under their locks: a runner may have declared one meanwhile.
CREATE FUNCTION asyncjobs.forget_types(_declared bigint[] DEFAULT '{}') RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ids bigint[] := asyncjobs.outdated_types(_declared);
BEGIN
    IF cardinality(_ids) = 0 THEN
        RETURN 0;
    END IF;
    _ids := ARRAY(SELECT t.id FROM asyncjobs.types AS t WHERE t.id = ANY (_ids) ORDER BY t.id FOR UPDATE SKIP LOCKED);
    DELETE FROM asyncjobs.types AS t WHERE t.id = ANY (_ids) AND t.id = ANY (asyncjobs.outdated_types(_declared));
    RETURN cardinality(_ids);
END $$;
