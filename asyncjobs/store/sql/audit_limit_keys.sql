-- Permits that are lost: jobs that wait for a permit which is free, of a key that no claim looks at, and nobody is asked to open (P15).
WITH waiting AS MATERIALIZED (
    SELECT j.limit_key AS key, j.queue, coalesce(j.lane, '') AS lane, min(j.id) AS job_id FROM asyncjobs.jobs AS j
    WHERE j.limit_key IS NOT NULL AND j.status = 'pending' GROUP BY 1, 2, 3)
SELECT 'P15' AS promise, w.job_id, 'waits, and its limit key ' || w.key || ' is ' || coalesce(t.state, 'nowhere') AS problem
FROM waiting AS w
LEFT JOIN asyncjobs.limit_turns AS t ON t.key = w.key AND t.queue = w.queue AND t.lane = w.lane
LEFT JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(w.key)
WHERE NOT EXISTS (SELECT FROM asyncjobs.limit_requests AS r WHERE r.key = w.key AND (r.is_freed OR r.queue = w.queue))
    AND coalesce(t.state = 'idle' OR (t.state = 'full' AND coalesce(l.each > (
        SELECT count(*) FROM asyncjobs.jobs AS j WHERE j.limit_key = w.key AND j.runner_id IS NOT NULL), true)), true)
UNION ALL
SELECT 'P15', min(w.job_id), 'waits, and its limit ' || l.name || ' is full' FROM waiting AS w
JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(w.key) AND l.is_full
WHERE NOT EXISTS (SELECT FROM asyncjobs.limit_requests AS r WHERE asyncjobs.limit_name(r.key) = l.name AND r.is_freed)
    AND coalesce(l.total > asyncjobs.running_of(l.name, l.total), true)
GROUP BY l.name
ORDER BY 2, 3;
