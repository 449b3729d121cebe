-- A value as Python's format makes text of it; null for None.
CREATE FUNCTION asyncjobs.key_part(_name text, _what text, _part jsonb, _value jsonb) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _kind CONSTANT text := asyncjobs.json_kind(_value);
    _text CONSTANT text := _value #>> '{}';
BEGIN
    IF _kind = 'null' THEN
        RETURN NULL;
    ELSIF _part -> 'texts' ? _value::text THEN
        RETURN _part -> 'texts' ->> _value::text;
    ELSIF _kind = 'str' AND _part -> 'as' ? 'uuid' THEN
        IF _text !~* '^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$' THEN
            PERFORM asyncjobs.refuse('InvalidPayload', format('%s: invalid UUID - at $.%s', _name, _part ->> 'field'), 'Nothing was written.');
        END IF;
        RETURN _text::uuid;
    ELSIF _kind = 'bool' AND _part -> 'as' ? 'bool' THEN
        RETURN initcap(_text);
    ELSIF NOT _part -> 'as' ? _kind THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s: its %s takes {%s}, %s here, of which only Python knows the text: '
            'give "%s".', _name, _what, _part ->> 'field', asyncjobs.kind_of(_value), replace(_what, ' ', '_')), 'Nothing was written.');
    END IF;
    RETURN _text;
END $$;
