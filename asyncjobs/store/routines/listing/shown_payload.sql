-- A payload for a list: without the fields that nobody is shown of its type, as runners have registered them or (`_ours`) the app that asks
-- declares them. Of a path the whole first field.
CREATE FUNCTION asyncjobs.shown_payload(_type text, _payload jsonb, _ours jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _fields text[] := ARRAY(
        SELECT split_part(f.field, '.', 1) FROM asyncjobs.types AS t CROSS JOIN LATERAL unnest(t.redact) AS f(field) WHERE t.type = _type
        UNION SELECT split_part(o.field, '.', 1) FROM jsonb_array_elements_text(_ours -> _type) AS o(field));
    _field text;
BEGIN
    IF jsonb_typeof(_payload) <> 'object' THEN
        RETURN _payload;
    END IF;
    FOREACH _field IN ARRAY _fields LOOP
        IF _payload ? _field THEN
            _payload := jsonb_set(_payload, ARRAY[_field], '"[redacted]"');
        END IF;
    END LOOP;
    RETURN _payload;
END $$;
