-- Ids for the door, with their proofs.
CREATE FUNCTION asyncjobs.give_ids(_count integer, OUT ids bigint[], OUT proofs bigint[]) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    ids := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, least(_count, 10000)));
    proofs := asyncjobs.proofs(ids);
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.give_ids FROM PUBLIC;
