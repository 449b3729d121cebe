-- The transactions, by their virtual ids, that have the table of runners in the mode that claims have it in.
CREATE FUNCTION asyncjobs.claims_under_way() RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.virtualtransaction FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
          AND l.relation = 'asyncjobs.runners'::regclass AND l.mode = 'RowShareLock' AND l.granted);
END $$;
