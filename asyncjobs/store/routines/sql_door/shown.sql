-- The value in a message: cut to 60 characters.
CREATE FUNCTION asyncjobs.shown(_value jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN pg_catalog.jsonb_typeof(_value) = 'string' AND asyncjobs.is_printable(_value #>> '{}')
    THEN '"' || CASE WHEN pg_catalog.length(_value #>> '{}') <= 60 THEN _value #>> '{}' ELSE pg_catalog.left(_value #>> '{}', 60) || '...' END || '"'
    ELSE CASE WHEN pg_catalog.length(_value::text) <= 60 THEN _value::text ELSE pg_catalog.left(_value::text, 60) || '...' END END;
