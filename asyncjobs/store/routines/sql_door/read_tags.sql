-- A list of tags, each once: `check_tags` of declare/options.py.
CREATE FUNCTION asyncjobs.read_tags(_option text, _value jsonb) RETURNS text[] LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _tags text[] := '{}';
    _each jsonb;
    _tag text;
    _problem text;
BEGIN
    IF jsonb_typeof(_value) <> 'array' THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is %s: give a list, as in %s=["nightly"].', _option, asyncjobs.shown(_value), asyncjobs.kind_of(_value), _option),
            'Nothing was written.');
    END IF;
    FOR _each IN SELECT v.value FROM jsonb_array_elements(_value) WITH ORDINALITY AS v ORDER BY v.ordinality LOOP
        _tag := _each #>> '{}';
        _problem := CASE WHEN jsonb_typeof(_each) <> 'string' THEN format('is %s, not a str', asyncjobs.kind_of(_each))
            WHEN asyncjobs.key_problem(_tag, 63) IS NOT NULL THEN asyncjobs.key_problem(_tag, 63)
            WHEN NOT asyncjobs.is_printable(_tag) THEN 'has characters that cannot be printed'
            WHEN _tag <> btrim(_tag) THEN 'begins or ends with a space' END;
        IF _problem IS NOT NULL THEN
            PERFORM asyncjobs.refuse('InvalidOption', format('%s= has %s, which %s.', _option, asyncjobs.shown(_each), _problem), 'Nothing was written.');
        END IF;
        _tags := CASE WHEN _tag = ANY (_tags) THEN _tags ELSE _tags || _tag END;
    END LOOP;
    IF cardinality(_tags) > 20 THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s= has %s tags, at most 20.', _option, cardinality(_tags)), 'Nothing was written.');
    END IF;
    RETURN _tags;
END $$;
