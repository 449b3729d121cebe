-- With a row that says notify=False nothing that comes after it in the caller's transaction notifies: see `may_notify`.
CREATE FUNCTION asyncjobs.keep_quiet(_rows asyncjobs.new_job[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(_rows) AS r WHERE NOT r.notify) THEN
        PERFORM set_config('asyncjobs_notify.is_off', 'on', true);
    END IF;
END $$;
