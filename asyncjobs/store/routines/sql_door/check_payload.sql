-- The payload as text, if it fits its type. Of a type that no program has declared only its size and depth are known. What is wrong is looked
-- for in payloads that get caught in the sieve, in which nothing gets that fits: of three fields that took 17 us, the sieve takes 2.
CREATE FUNCTION asyncjobs.check_payload(_name text, _type asyncjobs.types, _payload jsonb, _which text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _text CONSTANT text := _payload::text;
    _depth CONSTANT integer := coalesce(_type.max_depth, 200);
    _bytes CONSTANT bigint := coalesce(_type.max_payload_bytes, 1048576);
    _problem text;
BEGIN
    IF jsonb_typeof(_payload) IS DISTINCT FROM 'object' THEN
        _problem := format('the payload is %s: give its fields by name, as in {"field": value}', asyncjobs.kind_of(_payload));
    ELSIF octet_length(_text) > _bytes THEN
        PERFORM asyncjobs.refuse('PayloadTooLarge', format('%s: %s bytes, at most %s (max_payload_bytes).', coalesce(_type.type, _name),
            btrim(to_char(octet_length(_text), '9,999,999,999')), btrim(to_char(_bytes, '9,999,999,999,999'))),
            _which || 'Store what is large elsewhere, and enqueue where it is.');
    ELSIF length(_text) > 2 * _depth
        AND jsonb_path_exists(_payload, format('strict $.**{%s to last} ? (@.type() == "object" || @.type() == "array")', _depth)::jsonpath) THEN
        _problem := format('nested deeper than %s levels (max_depth)', _depth);
    ELSIF jsonb_path_exists(_payload, _type.sieve, '{}', true) OR (strpos(_text, '.0') > 0 AND _type.schema IS NOT NULL) THEN
        _problem := asyncjobs.payload_problem(_type.schema, _payload);
    END IF;
    IF _problem IS NOT NULL THEN
        PERFORM asyncjobs.refuse('InvalidPayload', coalesce(_type.type, _name) || ': ' || _problem,
            _which || coalesce('Its fields: ' || nullif(array_to_string(ARRAY(SELECT jsonb_array_elements_text(_type.schema -> 'fields')), ', '), '') || '.',
                'Nothing was written.'));
    END IF;
    RETURN _text;
END $$;
