-- The dedup key of a job that is being claimed, for the claim's answer. That of one that holds it until its start is freed here: by the claim
-- itself, so no enqueue finds a job that runs where one is to wait. (`rest` asks; a job without `dedup_until` pays for a test for null.)
CREATE FUNCTION asyncjobs.dedup_at_start(_id bigint, _key text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.end_dedup(ARRAY[_id]);
    RETURN _key;
END $$;
