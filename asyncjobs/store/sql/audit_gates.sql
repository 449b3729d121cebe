-- What no fold, sweep or verb would ever mend of workflows (P14): counts that are not those of the members, dependents that wait at a gate
-- which has none missing or run although one has, members that wait for nothing, and those whose rows say something else than they did.
WITH member AS MATERIALIZED (
    SELECT m.job_id, m.workflow_id, m.arrived, g.id AS gate_id, j.status, j.runner_id
    FROM asyncjobs.members AS m CROSS JOIN LATERAL pg_catalog.unnest(m.workflow_id || m.gates) AS g(id)
    LEFT JOIN asyncjobs.jobs AS j ON j.id = m.job_id),
gate AS MATERIALIZED (
    SELECT g.id, g.workflow_id, g.missing, g.dead, g.releasing, coalesce(a.n, 0) AS n, coalesce(a.dead, 0) AS came_dead, a.gate_id IS NOT NULL AS has_left_over
    FROM asyncjobs.gates AS g LEFT JOIN (
        SELECT r.gate_id, sum(r.n) AS n, sum(r.dead) AS dead FROM asyncjobs.arrivals AS r GROUP BY r.gate_id) AS a ON a.gate_id = g.id),
wait AS MATERIALIZED (
    SELECT d.job_id, d.gate_id, d.state, d.rule, g.missing, g.dead, g.releasing OR g.has_left_over AS is_busy, j.status
    FROM asyncjobs.dependents AS d JOIN gate AS g ON g.id = d.gate_id LEFT JOIN asyncjobs.jobs AS j ON j.id = d.job_id)
SELECT 'P14' AS promise, gate.id AS job_id, 'is a gate with ' || gate.missing || ' missing and ' || gate.dead || ' dead, and its members say '
    || c.missing || ' and ' || c.dead AS problem
FROM gate JOIN asyncjobs.workflows AS w ON w.id = gate.workflow_id AND NOT w.is_pruned CROSS JOIN LATERAL (
    SELECT count(1) FILTER (WHERE m.arrived IS NULL) AS missing, count(1) FILTER (WHERE m.arrived = 1) AS dead
    FROM member AS m WHERE m.gate_id = gate.id) AS c
WHERE (gate.missing - gate.n, gate.dead + gate.came_dead) <> (c.missing, c.dead)
UNION ALL
SELECT 'P14', wait.job_id, 'waits at gate ' || wait.gate_id || ', which has none missing'
FROM wait WHERE wait.state = 'waiting' AND wait.missing = 0 AND NOT wait.is_busy
UNION ALL
SELECT 'P14', wait.job_id, 'was ended by gate ' || wait.gate_id || ', of which no member is dead'
FROM wait WHERE wait.state = 'broken' AND wait.dead = 0 AND NOT wait.is_busy
UNION ALL
SELECT 'P14', wait.job_id, 'is ' || wait.status || ' and waits at gate ' || wait.gate_id
FROM wait WHERE wait.state <> 'released' AND wait.status NOT IN ('blocked', 'cancelled', 'dead')
UNION ALL
SELECT 'P14', j.id, 'is blocked and waits at no gate'
FROM asyncjobs.jobs AS j WHERE j.status = 'blocked' AND NOT EXISTS (SELECT FROM wait WHERE wait.job_id = j.id AND wait.state = 'waiting')
UNION ALL
SELECT DISTINCT 'P14', member.job_id, 'has ended as ' || coalesce(member.status, 'gone') || ' and has not arrived'
FROM member WHERE member.arrived IS NULL AND coalesce(member.status, 'completed') IN ('completed', 'dead', 'cancelled') AND member.runner_id IS NULL
UNION ALL
SELECT DISTINCT 'P14', member.job_id, 'has arrived as ' || CASE member.arrived WHEN 0 THEN 'completed' ELSE 'dead' END || ' and is ' || member.status
FROM member WHERE member.arrived IS NOT NULL AND (member.arrived = 0) IS DISTINCT FROM (member.status = 'completed') AND member.status IS NOT NULL
   OR member.arrived IS NOT NULL AND member.status NOT IN ('completed', 'dead', 'cancelled')
UNION ALL
SELECT 'P14', w.id, 'is a workflow with none missing that has not ended, or with some that has'
FROM asyncjobs.workflows AS w JOIN gate ON gate.id = w.id WHERE (gate.missing = 0) <> (w.ended_at IS NOT NULL)
ORDER BY 2, 1;
