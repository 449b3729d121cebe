-- Workflows with ids below $1 (null: the newest): the newest first, of this name if one is given, and only those that have not ended if $3.
SELECT w.id, w.name, g.size, g.missing, g.dead, w.created_at,
    CASE WHEN w.ended_at IS NOT NULL AND NOT asyncjobs.has_left_over(w.id) THEN w.ended_at END AS ended_at, w.cancel_requested_at, w.cancel_message, w.correlation_id,
    w.created_by, w.parent_job_id
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
WHERE ($1::bigint IS NULL OR w.id < $1::bigint) AND ($2::text IS NULL OR w.name = $2::text) AND (NOT $3::boolean OR w.ended_at IS NULL)
ORDER BY w.id DESC LIMIT $4::integer;
