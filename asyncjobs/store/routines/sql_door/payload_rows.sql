-- A row for each payload of a type, as Python's enqueue makes it. `_options`: for all, or a list with one for each. `_takes`: results of other
-- members may stand in payloads (`names_results`).
CREATE FUNCTION asyncjobs.payload_rows(_name text, _payloads jsonb[], _options jsonb, _takes boolean) RETURNS asyncjobs.new_job[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _type asyncjobs.types := asyncjobs.newest_type(_name);
    _each CONSTANT boolean := jsonb_typeof(_options) = 'array';
    _usual asyncjobs.new_job;  -- what its options and its type say of a job
    _row asyncjobs.new_job;
    _rows asyncjobs.new_job[] := '{}';
    _payload jsonb;
BEGIN
    IF _takes THEN
        _type.schema := _type.schema || '{"takes": true}';
    END IF;
    FOREACH _payload IN ARRAY _payloads LOOP
        IF _usual IS NULL OR _each THEN
            _usual := asyncjobs.as_declared(_name, _type, CASE WHEN _each THEN _options -> cardinality(_rows) ELSE _options END);
            _row := _usual;
        END IF;
        _row.payload := asyncjobs.check_payload(_name, _type, _payload,
            CASE WHEN cardinality(_payloads) > 1 THEN format('Payload %s of %s. ', cardinality(_rows) + 1, cardinality(_payloads)) ELSE '' END);
        IF _usual.serialization_key IS NULL AND _type.serialize_by IS NOT NULL THEN
            _row.serialization_key := asyncjobs.key_of(_name, 'serialize_by', _type.serialize_by, _payload);
        END IF;
        IF _usual.dedup_key IS NULL AND _type.dedup_by IS NOT NULL THEN
            _row.dedup_key := asyncjobs.key_of(_name, 'dedup_by', _type.dedup_by, _payload);
        END IF;
        IF _type.limit_name IS NOT NULL THEN
            _row.limit_key := concat_ws(':', _type.limit_name, coalesce(_usual.limit_key,
                CASE WHEN _type.limit_by IS NOT NULL THEN asyncjobs.key_of(_name, 'by', _type.limit_by, _payload) END));
        END IF;
        _rows := _rows || _row;
    END LOOP;
    RETURN _rows;
END $$;
