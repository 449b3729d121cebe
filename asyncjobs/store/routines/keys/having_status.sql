-- Those of these jobs that have one of these statuses in `jobs`.
CREATE FUNCTION asyncjobs.having_status(_ids bigint[], _statuses text[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status = ANY (_statuses) ORDER BY j.id);
END $$;
