-- Wait until all claims have ended that are under way now. Each has looked up its runner's row, FOR KEY SHARE, and keeps the table
-- locked in that mode until its end. It takes that lock before its snapshot: one that has not got it yet sees all that is committed by
-- now. So claims pay nothing for this. Error 55P03 after a while.
CREATE FUNCTION asyncjobs.wait_for_claims() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ends_at timestamptz := clock_timestamp() + interval '2 seconds';
    _claims text[] := asyncjobs.claims_under_way();
BEGIN
    WHILE _claims && asyncjobs.claims_under_way() LOOP
        IF clock_timestamp() > _ends_at THEN
            RAISE EXCEPTION 'claims that began before are still under way' USING ERRCODE = 'lock_not_available';
        END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
END $$;
