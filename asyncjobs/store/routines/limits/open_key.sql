-- An operator opens a key that a service, or its rate, has closed.
CREATE FUNCTION asyncjobs.open_key(_key text) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '2s' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.limit_keys AS k SET tat = '-infinity', closed_until = NULL, closed_seconds = NULL, closed_by = NULL WHERE k.key = _key;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed)
    SELECT t.key, t.queue, t.lane, true FROM asyncjobs.limit_turns AS t WHERE t.key = _key;
    PERFORM asyncjobs.tell('d');
    RETURN true;
END $$;
