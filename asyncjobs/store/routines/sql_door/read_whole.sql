-- A whole number in a range.
CREATE FUNCTION asyncjobs.read_whole(_option text, _value jsonb, _least bigint, _most bigint, _note text DEFAULT '') RETURNS bigint
LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asyncjobs.json_kind(_value) <> 'int' THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is %s: give a whole number.', _option, asyncjobs.shown(_value), asyncjobs.kind_of(_value)), 'Without quotes.');
    ELSIF _value::numeric NOT BETWEEN _least AND _most THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s is out of range: give %s to %s%s.', _option, _value, _least,
            btrim(to_char(_most, '9,999,999,999,999,999,999')), _note), 'Nothing was written.');
    END IF;
    RETURN _value::bigint;
END $$;
