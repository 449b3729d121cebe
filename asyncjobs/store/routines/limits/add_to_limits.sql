-- Jobs were enqueued, some of them with limits: their keys are opened, at once if the transaction is asyncjobs' own (`_own`), else after its commit.
CREATE FUNCTION asyncjobs.add_to_limits(_ids bigint[], _own boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _own THEN
        PERFORM asyncjobs.open_limits(_ids, false);
    ELSE
        PERFORM asyncjobs.request_opening(_ids, false);
    END IF;
END $$;
