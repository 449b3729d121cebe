-- Why a member that has ended is not to be retried by itself (null: nothing is in the way), and by which other member. 'broken': it was ended
-- by its gate. 'cancelling': its workflow is being cancelled. 'pruning': its workflow is being deleted.
CREATE FUNCTION asyncjobs.retry_refusal(_id bigint, OUT outcome text, OUT other_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT CASE WHEN w.is_pruned THEN 'pruning'
                WHEN w.cancel_requested_at IS NOT NULL AND w.ended_at IS NULL THEN 'cancelling'
                WHEN EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = _id AND d.state = 'broken') THEN 'broken' END, m.broken_by
    INTO outcome, other_id FROM asyncjobs.members AS m JOIN asyncjobs.workflows AS w ON w.id = m.workflow_id WHERE m.job_id = _id;
END $$;
