-- A key or an id of the caller's: `check_key` of declare/options.py.
CREATE FUNCTION asyncjobs.read_key(_option text, _value jsonb) RETURNS text LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _key CONSTANT text := _value #>> '{}';
    _problem text := asyncjobs.key_problem(_key);
BEGIN
    IF jsonb_typeof(_value) <> 'string' THEN
        _problem := format('is %s, not a str', asyncjobs.kind_of(_value));
    ELSIF _problem IS NULL AND _option IN ('correlation_id', 'created_by') AND NOT asyncjobs.is_printable(_key) THEN
        _problem := 'has characters that cannot be printed';
    END IF;
    IF _problem IS NOT NULL THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s %s.', _option, asyncjobs.shown(_value), _problem), 'Nothing was written.');
    END IF;
    RETURN _key;
END $$;
