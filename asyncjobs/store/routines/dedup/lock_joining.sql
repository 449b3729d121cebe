-- The locks that a caller's transaction needs at its commit, all at once, in the order that everybody keeps: rows of jobs that it
-- replaces (but for those that wait in a line, which come after their keys), then the keys of these and of the rows that join.
CREATE FUNCTION asyncjobs.lock_joining() RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_replaced(ARRAY(SELECT r.job_id FROM asyncjobs.replacements AS r), ARRAY(
        SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.place IS NULL
        UNION SELECT r.serialization_key FROM asyncjobs.replacements AS r));
END $$;
