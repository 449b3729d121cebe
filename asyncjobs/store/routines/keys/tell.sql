-- The only way in which SQL notifies. What is not told is found by the polls of those who would have heard it.
CREATE FUNCTION asyncjobs.tell(_payload text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asyncjobs.may_notify() THEN
        PERFORM pg_notify(asyncjobs.channel(), _payload);
    END IF;
END $$;
