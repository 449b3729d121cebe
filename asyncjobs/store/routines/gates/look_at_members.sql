-- Look at at most `_limit` members behind (`_workflow`, `_number`) of workflows that have not ended: whose jobs have ended, or are gone, without
-- an arrival, since a stranger's SQL did that. Where to go on is in `last_workflow` and `last_number`; null at the end. `cancelling`: workflows
-- that somebody has begun to cancel.
CREATE FUNCTION asyncjobs.look_at_members(
    _workflow bigint, _number bigint, _limit integer,
    OUT ended bigint[], OUT last_workflow bigint, OUT last_number bigint, OUT cancelling bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH seen AS MATERIALIZED (
        SELECT m.job_id, m.workflow_id, m.number, m.arrived FROM asyncjobs.workflows AS w CROSS JOIN LATERAL (
            SELECT o.job_id, o.workflow_id, o.number, o.arrived FROM asyncjobs.members AS o
            WHERE o.workflow_id = w.id AND (w.id > _workflow OR o.number > _number) ORDER BY o.number LIMIT _limit) AS m
        WHERE w.ended_at IS NULL AND w.id >= _workflow ORDER BY m.workflow_id, m.number LIMIT _limit)
    SELECT array_agg(s.job_id) FILTER (WHERE s.arrived IS NULL AND (j.id IS NULL OR (
            j.status IN ('completed', 'dead', 'cancelled') AND NOT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = j.runner_id)))),
        CASE WHEN count(1) >= _limit THEN max(s.workflow_id) END,
        CASE WHEN count(1) >= _limit THEN (array_agg(s.number ORDER BY s.workflow_id DESC, s.number DESC))[1] END
    INTO ended, last_workflow, last_number FROM seen AS s LEFT JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[s.job_id]);
    cancelling := ARRAY(
        SELECT w.id FROM asyncjobs.workflows AS w WHERE w.ended_at IS NULL AND w.cancel_requested_at IS NOT NULL ORDER BY w.id LIMIT 100);
END $$;
