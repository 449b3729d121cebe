-- Let jobs that wait in no line join theirs again: as if they had been delayed until now. Returns how many still needed it.
CREATE FUNCTION asyncjobs.rejoin(_ids bigint[]) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status || '' = 'waiting' ORDER BY j.id FOR UPDATE SKIP LOCKED);
    _count integer;
BEGIN
    UPDATE asyncjobs.jobs AS j SET status = 'scheduled', run_at = asyncjobs.clock(), updated_at = asyncjobs.clock()
    WHERE j.id = ANY (_locked) AND j.status || '' = 'waiting'
      AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]));
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;
