-- A document of a workflow has these fields and no other; `_list`: one of them is a list.
CREATE FUNCTION asyncjobs.check_fields(_who text, _document jsonb, _fields text[], _list text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _unknown text;
BEGIN
    IF jsonb_typeof(_document) IS DISTINCT FROM 'object' THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('the %s is %s: give an object.', _who, asyncjobs.kind_of(coalesce(_document, 'null'))),
            'Fields: ' || array_to_string(_fields, ', ') || '.');
    END IF;
    SELECT k.name INTO _unknown FROM jsonb_object_keys(_document) AS k(name) WHERE k.name <> ALL (_fields) LIMIT 1;
    IF FOUND THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('the %s has no field %L.', _who, _unknown), 'Fields: ' || array_to_string(_fields, ', ') || '.');
    ELSIF _list IS NOT NULL AND jsonb_typeof(_document -> _list) IS DISTINCT FROM 'array' THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('%s of the %s is %s: give a list.', quote_ident(_list), _who,
            asyncjobs.kind_of(coalesce(_document -> _list, 'null'))), 'It may be empty.');
    END IF;
END $$;
