-- The serialization key, dedup key or limit key of a payload by its type's template (`_option`: which): texts, and fields with what makes text of them (`as`) and the text of their
-- default (null: None). As `KeyRule` of declare/key_rule.py does, or not at all.
CREATE FUNCTION asyncjobs.key_of(_name text, _option text, _template jsonb, _payload jsonb) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _key text := '';
    _what CONSTANT text := CASE _option WHEN 'dedup_by' THEN 'dedup key' WHEN 'by' THEN 'limit key' ELSE 'serialization key' END;
    _part jsonb;
    _problem text;
BEGIN
    IF jsonb_typeof(_template) <> 'array' THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s: its %s is made by Python (%s): give "%s".', _name, _what, _option, replace(_what, ' ', '_')),
            'SQL expands templates over texts, whole numbers, booleans, UUIDs and enums.');
    END IF;
    FOR _part IN SELECT p.value FROM jsonb_array_elements(_template) WITH ORDINALITY AS p ORDER BY p.ordinality LOOP
        _key := _key || CASE WHEN jsonb_typeof(_part) = 'string' THEN _part #>> '{}'
            WHEN _payload ? (_part ->> 'field') THEN asyncjobs.key_part(_name, _what, _part, _payload -> (_part ->> 'field'))
            ELSE _part ->> 'default' END;
    END LOOP;
    IF _key IS NULL THEN
        _problem := format('%s failed: ValueError: a value is None: decide what that means with the decorator @....serialize_by (or dedup_by)', _option);
    ELSIF asyncjobs.key_problem(_key) IS NOT NULL THEN
        _problem := format('the %s %s %s', _what, asyncjobs.shown(to_jsonb(_key)), asyncjobs.key_problem(_key));
    ELSE
        RETURN _key;
    END IF;
    PERFORM asyncjobs.refuse('InvalidPayload', _name || ': ' || _problem, format('Or give the key: the option "%s".', replace(_what, ' ', '_')));
END $$;
