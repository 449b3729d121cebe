-- Enqueue a workflow in this transaction, all of it or nothing: its id. A document:
--   {"name": ..., "correlation_id": ..., "max_members": ...,
--    "jobs": [{"name": ..., "type": ..., "payload": {...} or "payloads": [{...}, ...], "options": {...}, "after": name or [names],
--              "when": "completed" or "ended"}, ...]}
-- Jobs of "payloads" are a group. Each waits for those of `after`, and for those whose results stand anywhere in its payload, {"$result": name}
-- or of a group {"$results": name}; names are of jobs before it. Types, options and payloads are as of `enqueue`; the rules: routines/gates.
CREATE FUNCTION asyncjobs.enqueue_workflow(workflow jsonb) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now CONSTANT timestamptz := asyncjobs.moment();
    _most CONSTANT bigint := coalesce(asyncjobs.read_whole('max_members', nullif(workflow -> 'max_members', 'null'), 1, 2147483647), 100000);
    _id CONSTANT bigint := asyncjobs.new_workflow_id();
    _name CONSTANT text := asyncjobs.read_name('workflow', coalesce(workflow -> 'name', 'null'));
    _known jsonb := '{}';  -- by name: the first and the last member, whether it is a group
    _gate_of jsonb := '{}';  -- by name: the number of its gate
    _gates jsonb := '[]'; _waits jsonb := '[]';
    _rows asyncjobs.new_job[] := '{}'; _made asyncjobs.new_job[];
    _step record;
    _who text;
    _payloads jsonb[]; _taken text[];
    _wait record;
    _ids bigint[]; _refused integer[]; _statuses text[];
    _last integer;
BEGIN
    PERFORM asyncjobs.check_fields('workflow', workflow, '{name,correlation_id,max_members,jobs}', 'jobs');
    FOR _step IN SELECT s.value AS doc, s.ordinality FROM jsonb_array_elements(workflow -> 'jobs') WITH ORDINALITY AS s ORDER BY s.ordinality LOOP
        PERFORM asyncjobs.check_fields(format('job %s', _step.ordinality), _step.doc, '{name,type,payload,payloads,options,after,when}', NULL);
        _who := format('workflow "%s": %s (job %s of "jobs")', _name, coalesce(_step.doc ->> 'type', 'a job'), _step.ordinality);
        SELECT p.payloads, p.taken INTO _payloads, _taken FROM asyncjobs.step_payloads(_who, _step.doc, _known) AS p;
        _last := cardinality(_rows) + cardinality(_payloads) - 1;
        IF _last >= _most THEN
            PERFORM asyncjobs.refuse('WorkflowError', format('workflow "%s" has more than %s jobs.', _name, _most), 'Give "max_members" if it is to have so many.');
        END IF;
        FOR _wait IN SELECT w.value ->> 0 AS name, w.value ->> 1 AS rule
            FROM jsonb_array_elements(asyncjobs.step_waits(_who, _step.doc, _known, _taken)) AS w
            WHERE (_known -> (w.value ->> 0) ->> 0)::integer <= (_known -> (w.value ->> 0) ->> 1)::integer  -- what is empty has ended
        LOOP
            IF NOT _gate_of ? _wait.name THEN
                _gate_of := _gate_of || jsonb_build_object(_wait.name, jsonb_array_length(_gates));
                _gates := _gates || jsonb_build_array(jsonb_build_object('name', _wait.name,
                    'members', jsonb_build_array(jsonb_build_array(_known -> _wait.name -> 0, _known -> _wait.name -> 1))));
            END IF;
            _waits := _waits || coalesce((SELECT jsonb_agg(jsonb_build_array(n.number, _gate_of -> _wait.name, _wait.rule))
                FROM generate_series(cardinality(_rows), _last) AS n(number)), '[]');
        END LOOP;
        _made := asyncjobs.payload_rows(_step.doc ->> 'type', _payloads, coalesce(_step.doc -> 'options', '{}'), true);
        _made := asyncjobs.as_members(_who, _made, _id, workflow ->> 'correlation_id');
        _known := _known || CASE WHEN _step.doc ? 'name' THEN asyncjobs.named_step(_who, _step.doc, _known, cardinality(_rows), _last) ELSE '{}' END;
        _rows := _rows || _made;
    END LOOP;
    FOR _wait IN SELECT DISTINCT (w.value ->> 0)::integer + 1 AS at FROM jsonb_array_elements(_waits) AS w LOOP
        _rows[_wait.at].waits := true;
    END LOOP;
    SELECT e.ids, e.refused, e.statuses INTO _ids, _refused, _statuses FROM asyncjobs.enqueue_rows(
        NULL, array_fill(asyncjobs.fresh_token(), ARRAY[cardinality(_rows)]), _rows, false, false, 0, NULL, _now) AS e;
    IF _refused IS NOT NULL THEN
        PERFORM asyncjobs.refuse_duplicate(_rows[_refused[1]], _ids[_refused[1]], _statuses[1]);
    END IF;
    PERFORM asyncjobs.write_workflow(_id, jsonb_build_object('name', _name, 'correlation_id', workflow -> 'correlation_id', 'gates', _gates, 'waits', _waits),
        _ids, _now);
    PERFORM asyncjobs.keep_quiet(_rows);
    PERFORM asyncjobs.announce(_rows, NULL, _now);
    RETURN _id;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.enqueue_workflow FROM PUBLIC;
