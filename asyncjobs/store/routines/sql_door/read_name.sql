-- The name of a queue, a lane or a job: `check_name` of model/names.py.
CREATE FUNCTION asyncjobs.read_name(_option text, _value jsonb) RETURNS text LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _name CONSTANT text := _value #>> '{}';
    _most CONSTANT integer := CASE WHEN _option = 'job' THEN 200 ELSE 63 END;
    _problem text;
BEGIN
    IF jsonb_typeof(_value) <> 'string' THEN
        _problem := format('is %s, not a str: give it a name in quotes', asyncjobs.kind_of(_value));
    ELSIF _name = '' THEN
        _problem := 'is empty: give it a name';
    ELSIF NOT asyncjobs.is_printable(_name) THEN
        _problem := 'has characters that cannot be printed: leave them out';
    ELSIF _name <> btrim(_name) THEN
        _problem := 'begins or ends with a space: leave it out';
    ELSIF octet_length(convert_to(_name, 'UTF8')) > _most THEN
        _problem := format('is %s bytes, at most %s', octet_length(convert_to(_name, 'UTF8')), _most);
    ELSIF starts_with(_name, 'asyncjobs' || '.') THEN  -- in two, or the schema's name would be put in
        _problem := format('is reserved: names that begin with "%s." are asyncjobs'' own', 'asyncjobs');
    ELSE
        RETURN _name;
    END IF;
    PERFORM asyncjobs.refuse('InvalidOption', format('%s name %s %s.', _option, asyncjobs.shown(_value), _problem), 'Nothing was written.');
END $$;
