-- True or false.
CREATE FUNCTION asyncjobs.read_flag(_option text, _value jsonb) RETURNS boolean LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF jsonb_typeof(_value) <> 'boolean' THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is %s: give true or false.', _option, asyncjobs.shown(_value), asyncjobs.kind_of(_value)), 'Without quotes.');
    END IF;
    RETURN _value::boolean;
END $$;
