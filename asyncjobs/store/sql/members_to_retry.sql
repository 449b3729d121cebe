-- Members of a workflow that have died, or were cancelled otherwise than by their gates.
SELECT j.id FROM asyncjobs.members AS m JOIN asyncjobs.jobs AS j ON j.id = m.job_id
WHERE m.workflow_id = $1::bigint AND m.arrived = 1 AND m.broken_by IS NULL AND j.status IN ('dead', 'cancelled')
ORDER BY m.number LIMIT $2::integer;
