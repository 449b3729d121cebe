-- The head of a key is still this one (null: none); else error 40001: called once more.
CREATE FUNCTION asyncjobs.check_head(_key text, _id bigint) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL) IS DISTINCT FROM _id THEN
        RAISE EXCEPTION 'the head of the key moved on' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
