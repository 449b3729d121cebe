-- An instant with its time zone, as ISO 8601 and PostgreSQL write it.
CREATE FUNCTION asyncjobs.read_run_at(_option text, _value jsonb) RETURNS timestamptz LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _text CONSTANT text := _value #>> '{}';
    _at timestamptz;
BEGIN
    IF jsonb_typeof(_value) = 'string' AND _text ~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d' THEN
        IF _text !~ '(?i)\d(z|[+-]\d\d(:?\d\d){0,2})$' THEN
            PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s has no time zone: write it with one.', _option, asyncjobs.shown(_value)),
                'Such as 2027-01-01T00:00:00Z, or now() + interval ''1 day'' in jsonb_build_object.');
        END IF;
        BEGIN
            _at := _text::timestamptz;
        EXCEPTION WHEN data_exception THEN
            NULL;
        END;
    END IF;
    IF _at IS NULL THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is %s: give an instant.', _option, asyncjobs.shown(_value), asyncjobs.kind_of(_value)),
            'Such as 2027-01-01T00:00:00Z, or now() + interval ''1 day'' in jsonb_build_object.');
    ELSIF _at NOT BETWEEN asyncjobs.moment() - interval '3660 days' AND asyncjobs.moment() + interval '36600 days' THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('%s=%s is out of range: give an instant from 10 years ago to 100 years ahead.', _option, asyncjobs.shown(_value)),
            'Nothing was written.');
    END IF;
    RETURN _at;
END $$;
