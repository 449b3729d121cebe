-- One of a few words.
CREATE FUNCTION asyncjobs.read_choice(_option text, _value jsonb, _choices text[]) RETURNS text LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _quoted CONSTANT text := '"' || array_to_string(_choices, '", "') || '"';
BEGIN
    IF jsonb_typeof(_value) <> 'string' OR _value #>> '{}' <> ALL (_choices) THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s: give %s.', _option, asyncjobs.shown(_value), regexp_replace(_quoted, ', ("[^"]*")$', ' or \1')), 'Nothing was written.');
    END IF;
    RETURN _value #>> '{}';
END $$;
