-- An id for a workflow, and its gate.
CREATE FUNCTION asyncjobs.new_workflow_id() RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    LOOP
        _id := nextval(pg_get_serial_sequence('asyncjobs.gates', 'id'));
        EXIT WHEN NOT EXISTS (SELECT FROM asyncjobs.gates AS g WHERE g.id = _id);
        PERFORM asyncjobs.move_sequences();
    END LOOP;
    RETURN _id;
END $$;
