-- One workflow.
SELECT w.id, w.name, g.size, g.missing, g.dead, w.created_at,
    CASE WHEN w.ended_at IS NOT NULL AND NOT asyncjobs.has_left_over(w.id) THEN w.ended_at END AS ended_at, w.cancel_requested_at, w.cancel_message, w.correlation_id,
    w.created_by, w.parent_job_id
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id WHERE w.id = $1::bigint;
