-- A number of a text; null where there is none to be read.
CREATE FUNCTION asyncjobs.read_number(_text text) RETURNS float8 LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN _text::float8 BETWEEN -9e15 AND 9e15 THEN _text::float8 END;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
