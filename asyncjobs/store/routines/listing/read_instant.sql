-- What JSON says of an instant or a number, null where it says nothing of the kind: a stranger's value must not break a list.
CREATE FUNCTION asyncjobs.read_instant(_text text) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN asyncjobs.instant(_text::timestamptz);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
