-- Those of these jobs, which were given back (their rows are locked), that are not the heads of their lines wait again, each in its place;
-- the others are returned. Who dispatches one has its place first, and waits for no row that runs (_chapter, 5).
CREATE FUNCTION asyncjobs.wait_again(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _behind bigint[] := ARRAY(
        SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.dispatched_at IS NULL
        ORDER BY s.serialization_key COLLATE "C", s.place FOR UPDATE);
BEGIN
    IF cardinality(_behind) = 0 THEN
        RETURN _ids;
    END IF;
    UPDATE asyncjobs.jobs AS j SET status = 'waiting' WHERE j.id = ANY (_behind) AND j.status IN ('pending', 'paused', 'scheduled', 'failed');
    RETURN ARRAY(SELECT u.id FROM unnest(_ids) AS u(id) WHERE u.id <> ALL (_behind));
END $$;
