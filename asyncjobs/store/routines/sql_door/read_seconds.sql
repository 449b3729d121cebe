-- A duration: a number of seconds, or the text of an interval; in an interval a month has 30 days, a year 365.25.
CREATE FUNCTION asyncjobs.read_seconds(_option text, _value jsonb, _positive boolean) RETURNS float8 LANGUAGE plpgsql STRICT
SET intervalstyle = 'postgres' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _seconds numeric;
BEGIN
    IF jsonb_typeof(_value) = 'number' THEN
        _seconds := _value::numeric;
    ELSIF jsonb_typeof(_value) = 'string' THEN
        BEGIN
            _seconds := extract(epoch FROM (_value #>> '{}')::interval);
        EXCEPTION WHEN data_exception THEN
            NULL;
        END;
    END IF;
    IF _seconds IS NULL OR _seconds = 'NaN' THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is %s: give seconds or an interval.', _option, asyncjobs.shown(_value), asyncjobs.kind_of(_value)),
            'Such as 300, or "5 min".');
    ELSIF _seconds < 0 OR (_positive AND _seconds = 0) THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s must be %s 0 seconds.', _option, asyncjobs.shown(_value),
            CASE WHEN _positive THEN 'more than' ELSE 'at least' END), 'Such as 300, or "5 min".');
    ELSIF _seconds > 3162240000 THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s is longer than 100 years.', _option, asyncjobs.shown(_value)),
            'Such as 300, or "5 min".');
    END IF;
    RETURN _seconds;
END $$;
