-- Members of a workflow behind a number, in their order.
SELECT m.number, m.job_id AS id, j.type, coalesce(j.status, 'gone') AS status, j.error_message, m.broken_by
FROM asyncjobs.members AS m LEFT JOIN asyncjobs.jobs AS j ON j.id = m.job_id
WHERE m.workflow_id = $1::bigint AND m.number > $2::bigint ORDER BY m.number LIMIT $3::integer;
