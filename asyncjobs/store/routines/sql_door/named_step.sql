-- The name of a step, with the numbers of its members.
CREATE FUNCTION asyncjobs.named_step(_who text, _step jsonb, _known jsonb, _first integer, _last integer) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _name CONSTANT text := asyncjobs.read_name('job', _step -> 'name');
BEGIN
    IF _known ? _name THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('%s has the name %s, which another before it has.', _who, quote_ident(_name)),
            'A name says which job or group is meant.');
    END IF;
    RETURN jsonb_build_object(_name, jsonb_build_array(_first, _last, _step ? 'payloads'));
END $$;
