-- These jobs have ended, in this transaction; those that are members arrive. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.arrive(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _came asyncjobs.arrival[] := asyncjobs.mark_arrived(_ids);
BEGIN
    RETURN CASE WHEN _came IS NOT NULL THEN asyncjobs.fold_gates(_came) END;
END $$;
