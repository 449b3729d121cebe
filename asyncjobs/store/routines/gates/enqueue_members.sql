-- The door of workflows: all members and all that they wait for, in the caller's transaction, as `enqueue_in_transaction` does it for rows.
-- `_documents` are lists of rows in their order; those that wait say so (`waits`). The rules of ids, proofs and an earlier call that was not
-- answered (`_again`) are those of routines/enqueue. If a row is refused (`refused`, with the job that has its dedup key in `ids`), nothing is
-- written at all: a member is a job of its own, never another's.
CREATE FUNCTION asyncjobs.enqueue_members(
    _flow text, _documents text[], _channel text, _ids bigint[] DEFAULT NULL, _proofs bigint[] DEFAULT NULL, _tokens bigint[] DEFAULT NULL,
    _own boolean DEFAULT false, _again boolean DEFAULT false, _lock_timeout text DEFAULT NULL,
    OUT id bigint, OUT ids bigint[], OUT refused integer[], OUT statuses text[], OUT later integer[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _usual asyncjobs.new_job;
    _made asyncjobs.new_job[];
BEGIN
    IF _ids IS NOT NULL AND asyncjobs.proofs(_ids) IS DISTINCT FROM _proofs THEN
        RAISE EXCEPTION 'these ids were not given by give_ids' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF _again THEN
        id := asyncjobs.written_workflow(_ids[1], _tokens[1]);
        IF id IS NOT NULL THEN
            ids := _ids;
            RETURN;
        END IF;
    END IF;
    id := asyncjobs.new_workflow_id();
    _usual := jsonb_populate_record(NULL::asyncjobs.new_job, jsonb_build_object('workflow_id', id, 'on_duplicate', 'raise'));
    _made := ARRAY(SELECT jsonb_populate_recordset(_usual, d.document::jsonb) FROM unnest(_documents) AS d(document));
    IF EXISTS (SELECT FROM unnest(_made) AS r WHERE r.workflow_id <> id OR r.on_duplicate <> 'raise') THEN
        RAISE EXCEPTION 'a member is of the workflow that it is enqueued with, and no other job' USING ERRCODE = 'insufficient_privilege';
    END IF;
    _tokens := coalesce(_tokens, array_fill(asyncjobs.fresh_token(), ARRAY[cardinality(_made)]));
    SELECT e.ids, e.refused, e.statuses, e.later INTO ids, refused, statuses, later
    FROM asyncjobs.enqueue_rows(_ids, _tokens, _made, _own, false, 0, _lock_timeout, _now) AS e;
    IF _again AND asyncjobs.written_workflow(_ids[1], _tokens[1]) IS NOT NULL THEN  -- it was committed while this call waited for it
        id := asyncjobs.written_workflow(_ids[1], _tokens[1]);
        ids := _ids;
        refused := NULL;
        RETURN;
    END IF;
    IF refused IS NOT NULL THEN
        id := NULL;
        RETURN;
    END IF;
    PERFORM asyncjobs.write_workflow(id, _flow::jsonb, ids, _now);
    IF NOT _own THEN
        PERFORM asyncjobs.keep_quiet(_made);
    END IF;
    IF _channel IS NOT NULL THEN
        PERFORM asyncjobs.announce(_made, NULL, _now);
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.enqueue_members FROM PUBLIC;
