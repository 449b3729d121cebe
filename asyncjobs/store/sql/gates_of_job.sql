-- What a job waits for that is blocked: the gates that have not opened, and the first member that each of them misses.
SELECT g.id, g.name, g.size, g.missing, o.job_id AS oldest_id
FROM asyncjobs.dependents AS d JOIN asyncjobs.gates AS g ON g.id = d.gate_id
LEFT JOIN LATERAL (
    SELECT m.job_id FROM asyncjobs.members AS m
    WHERE m.workflow_id = g.workflow_id AND m.arrived IS NULL AND g.id = ANY (m.gates) ORDER BY m.number LIMIT 1) AS o ON true
WHERE d.job_id = $1::bigint AND d.state = 'waiting' ORDER BY g.missing DESC, g.id LIMIT 10;
