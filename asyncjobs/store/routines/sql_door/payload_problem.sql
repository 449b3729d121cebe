-- What does not fit in a payload, and where ([...]: some item); null when all does. `_schema`: `fields` are those that may be there, `checks` are lists of
-- values (`at`, a jsonpath) with what each has to be: one of some `kinds`, one of some `values`, or an object that has a field (`has`). As
-- declare/schema.py makes them. With `takes` the result of another member may stand anywhere: what comes of it is seen by the runner.
CREATE FUNCTION asyncjobs.payload_problem(_schema jsonb, _payload jsonb) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _unknown text := (SELECT k.name FROM jsonb_object_keys(_payload) AS k(name) WHERE NOT _schema -> 'fields' ? k.name LIMIT 1);
    _check jsonb;
    _value jsonb;
BEGIN
    IF _unknown IS NOT NULL THEN
        RETURN format('unknown field "%s" - at $.%s', _unknown, _unknown);
    END IF;
    FOR _check IN SELECT c.value FROM jsonb_array_elements(_schema -> 'checks') WITH ORDINALITY AS c ORDER BY c.ordinality LOOP
        FOR _value IN SELECT jsonb_path_query(_payload, (_check ->> 'at')::jsonpath, '{}', true) LOOP
            CONTINUE WHEN _schema ? 'takes' AND asyncjobs.names_results(_value);
            CONTINUE WHEN _schema ? 'takes' AND asyncjobs.names_results(_value);
            IF _check ? 'has' THEN
                CONTINUE WHEN _value ? (_check ->> 'has');
                RETURN format('missing field "%s" - at %s.%s', _check ->> 'has', _check ->> 'path', _check ->> 'has');
            ELSIF NOT _check -> 'kinds' ? asyncjobs.json_kind(_value) THEN
                RETURN format('expected %s, got %s - at %s', _check ->> 'expected', asyncjobs.json_kind(_value), _check ->> 'path');
            ELSIF NOT coalesce(_check -> 'values' @> _value, true) THEN
                RETURN format('invalid enum value %s - at %s', replace(_value::text, '"', ''''), _check ->> 'path');
            END IF;
        END LOOP;
    END LOOP;
    RETURN NULL;
END $$;
