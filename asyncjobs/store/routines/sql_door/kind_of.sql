-- What kind of JSON this is (`json_kind`), with its article, as what it is in Python.
CREATE FUNCTION asyncjobs.kind_of(_value jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE asyncjobs.json_kind(_value) WHEN 'null' THEN 'None' WHEN 'int' THEN 'an int' WHEN 'array' THEN 'a list' WHEN 'object' THEN 'a dict'
    ELSE 'a ' || asyncjobs.json_kind(_value) END;
