-- One workflow.
SELECT w.id, w.name, g.size, g.missing, g.dead, w.created_at, w.ended_at, w.cancel_requested_at, w.cancel_message, w.correlation_id,
    w.created_by, w.parent_job_id
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id WHERE w.id = $1::bigint;
