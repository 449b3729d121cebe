-- Write a workflow whose members are written in this transaction, under these ids, in their order. `_flow` is a document:
--   {"name": ..., "correlation_id": ..., "created_by": ..., "parent_job_id": ...,
--    "gates": [{"name": ..., "members": [[first, last], ...]}, ...],      numbers of members, from 0
--    "waits": [[member, gate, rule], ...]}                                gates by their numbers, from 0
CREATE FUNCTION asyncjobs.write_workflow(_id bigint, _flow jsonb, _ids bigint[], _now timestamptz) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _gates bigint[] := ARRAY(SELECT nextval(pg_get_serial_sequence('asyncjobs.gates', 'id')) FROM jsonb_array_elements(_flow -> 'gates'));
BEGIN
    INSERT INTO asyncjobs.workflows (id, name, correlation_id, created_by, parent_job_id, created_at, ended_at)
    VALUES (_id, _flow ->> 'name', _flow ->> 'correlation_id', _flow ->> 'created_by', (_flow ->> 'parent_job_id')::bigint, _now,
        CASE WHEN cardinality(_ids) = 0 THEN _now END);
    INSERT INTO asyncjobs.gates (id, workflow_id, size, missing, opened_at, name)
    SELECT _id, _id, cardinality(_ids), cardinality(_ids), CASE WHEN cardinality(_ids) = 0 THEN _now END, NULL
    UNION ALL
    SELECT _gates[g.number], _id, s.size, s.size, NULL, g.gate ->> 'name'
    FROM jsonb_array_elements(_flow -> 'gates') WITH ORDINALITY AS g(gate, number)
    CROSS JOIN LATERAL (
        SELECT sum((r.range ->> 1)::integer - (r.range ->> 0)::integer + 1) AS size FROM jsonb_array_elements(g.gate -> 'members') AS r(range)) AS s;
    INSERT INTO asyncjobs.members (job_id, workflow_id, number, gates)
    SELECT i.id, _id, i.number - 1, coalesce(o.gates, '{}')
    FROM unnest(_ids) WITH ORDINALITY AS i(id, number)
    LEFT JOIN (
        SELECT n.number, array_agg(_gates[g.number] ORDER BY g.number) AS gates
        FROM jsonb_array_elements(_flow -> 'gates') WITH ORDINALITY AS g(gate, number)
        CROSS JOIN LATERAL jsonb_array_elements(g.gate -> 'members') AS r(range)
        CROSS JOIN LATERAL generate_series((r.range ->> 0)::integer, (r.range ->> 1)::integer) AS n(number)
        GROUP BY n.number) AS o ON o.number = i.number - 1;
    INSERT INTO asyncjobs.dependents (job_id, gate_id, rule)
    SELECT _ids[(w.wait ->> 0)::integer + 1], _gates[(w.wait ->> 1)::integer + 1], w.wait ->> 2
    FROM jsonb_array_elements(_flow -> 'waits') AS w(wait);
END $$;
