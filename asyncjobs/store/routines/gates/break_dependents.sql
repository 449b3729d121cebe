-- End these jobs, which are blocked and locked, since what they wait for has not completed, or their workflow is being cancelled. They arrive
-- at their own gates by way of the folders.
CREATE FUNCTION asyncjobs.break_dependents(_ids bigint[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    UPDATE asyncjobs.members AS m SET broken_by = (
        SELECT g.dead_id FROM asyncjobs.dependents AS d JOIN asyncjobs.gates AS g ON g.id = ANY (ARRAY[d.gate_id])
        WHERE d.job_id = ANY (ARRAY[m.job_id]) AND d.state = 'broken' ORDER BY g.id LIMIT 1)
    WHERE m.job_id = ANY (_ids);
    UPDATE asyncjobs.jobs AS j SET status = 'cancelled', completed_at = _now, updated_at = _now, error_message = coalesce((
        SELECT w.cancel_message FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id]) AND w.cancel_requested_at IS NOT NULL), (
        SELECT CASE WHEN u.id IS NULL THEN format('upstream %s is gone', m.broken_by)
                    ELSE format('upstream %s (%s) %s', u.id, u.type, CASE u.status WHEN 'dead' THEN 'died' ELSE 'was cancelled' END) END
        FROM asyncjobs.members AS m LEFT JOIN asyncjobs.jobs AS u ON u.id = ANY (ARRAY[m.broken_by])
        WHERE m.job_id = ANY (ARRAY[j.id]) AND m.broken_by IS NOT NULL), 'its workflow was cancelled')
    WHERE j.id = ANY (_ids);
    PERFORM asyncjobs.end_dedup(_ids);
    PERFORM asyncjobs.leave_arrivals(asyncjobs.mark_arrived(_ids));
END $$;
