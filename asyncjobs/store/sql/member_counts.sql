-- How many members of a workflow have which status.
SELECT coalesce(j.status, 'gone') AS status, count(1) AS count
FROM asyncjobs.members AS m LEFT JOIN asyncjobs.jobs AS j ON j.id = m.job_id WHERE m.workflow_id = $1::bigint GROUP BY 1;
