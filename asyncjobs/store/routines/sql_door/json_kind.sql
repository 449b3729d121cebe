-- What kind of JSON this is, in the words of Python's decoder.
CREATE FUNCTION asyncjobs.json_kind(_value jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE pg_catalog.jsonb_typeof(_value) WHEN 'string' THEN 'str' WHEN 'boolean' THEN 'bool'
    WHEN 'number' THEN CASE WHEN pg_catalog.strpos(_value::text, '.') > 0 THEN 'float' ELSE 'int' END
    ELSE coalesce(pg_catalog.jsonb_typeof(_value), 'null') END;
