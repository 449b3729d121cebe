-- A dead or cancelled member is tried again, in this transaction: it un-arrives. True when it has to wait at a gate; then it is blocked. Its row
-- is locked. Error 40001 if that must not be, any more. What it was released by before its workflow was cancelled, and has some missing again,
-- it waits for again: but for a gate that another has locked, since that one would not see it.
CREATE FUNCTION asyncjobs.take_back(_id bigint) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ours bigint[];
BEGIN
    IF (SELECT r.outcome FROM asyncjobs.retry_refusal(_id) AS r) IS NOT NULL THEN
        RAISE EXCEPTION 'job % moved on', _id USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE asyncjobs.workflows AS w SET cancel_requested_at = NULL, cancel_message = NULL
    FROM asyncjobs.members AS m WHERE m.job_id = _id AND w.id = m.workflow_id AND w.cancel_requested_at IS NOT NULL;
    _ours := asyncjobs.try_lock_gates(ARRAY(SELECT d.gate_id FROM asyncjobs.dependents AS d WHERE d.job_id = _id AND d.state = 'released'));
    UPDATE asyncjobs.dependents AS d SET state = 'waiting' FROM asyncjobs.gates AS g
    WHERE d.job_id = _id AND d.state = 'released' AND d.gate_id = ANY (_ours) AND g.id = ANY (ARRAY[d.gate_id]) AND g.missing > 0;
    PERFORM asyncjobs.fold_gates(asyncjobs.unmark_arrived(ARRAY[_id]));
    UPDATE asyncjobs.jobs AS j SET status = 'blocked'
    WHERE j.id = _id AND EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = _id AND d.state = 'waiting');
    RETURN FOUND;
END $$;
