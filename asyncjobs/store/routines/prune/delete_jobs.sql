-- Delete these jobs, but for those that are locked or that are not final any more; returns how many.
CREATE FUNCTION asyncjobs.delete_jobs(_ids bigint[]) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked bigint[];
    _count integer;
BEGIN
    IF cardinality(_ids) = 0 THEN
        RETURN 0;
    END IF;
    _locked := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status IN ('completed', 'cancelled', 'dead')
        ORDER BY j.id FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM asyncjobs.jobs AS j WHERE j.id = ANY (_locked) RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;
