-- Starts that were more than a limit allowed.
SELECT 'P15' AS promise, a.job_id, 'was started when ' || a.running || ' ran with ' || a.name || ', at most ' || a.most AS problem
FROM asyncjobs.audit_limits AS a ORDER BY a.number;
