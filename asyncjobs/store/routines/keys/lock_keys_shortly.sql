-- `lock_keys`, giving up after a moment: error 55P03.
CREATE FUNCTION asyncjobs.lock_keys_shortly(_keys text[]) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_keys(_keys);
END $$;
