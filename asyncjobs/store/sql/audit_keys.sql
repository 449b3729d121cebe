-- What no dispatch would ever mend in the lines of serialization keys, and jobs with a key that run outside of its line.
WITH line AS MATERIALIZED (
    SELECT s.id, s.serialization_key AS key, s.place, s.dispatched_at IS NOT NULL AS dispatched, s.halted_at IS NOT NULL AS halted,
        j.status, j.runner_id
    FROM asyncjobs.serialized_jobs AS s LEFT JOIN asyncjobs.jobs AS j ON j.id = s.id)
SELECT 'P1' AS promise, line.id AS job_id, 'waits for key ' || line.key || ' without a place' AS problem
FROM line WHERE line.place IS NULL
UNION ALL
SELECT 'P1', line.id, 'waits for key ' || line.key || ', whose line has no head'
FROM line WHERE NOT line.dispatched
    AND NOT EXISTS (SELECT FROM line AS head WHERE head.key = line.key AND head.dispatched)
    AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = line.key)
UNION ALL
SELECT 'P1', line.id, 'holds key ' || line.key || ' and is ' || coalesce(line.status, 'gone')
FROM line WHERE line.dispatched AND NOT line.halted AND line.runner_id IS NULL
    AND coalesce(line.status, 'gone') IN ('gone', 'completed', 'dead', 'cancelled', 'waiting')
UNION ALL
SELECT 'P1', line.id, 'waits for key ' || line.key || ' and is ' || line.status
FROM line WHERE NOT line.dispatched AND line.status NOT IN ('waiting', 'paused')
UNION ALL
SELECT 'P3', line.id, 'is pending, and its key ' || line.key || ' is paused'
FROM line WHERE line.status = 'pending' AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = line.key)
UNION ALL
SELECT 'P1', j.id, 'is waiting and in no line'
FROM asyncjobs.jobs AS j WHERE j.status = 'waiting' AND NOT EXISTS (SELECT FROM line WHERE line.id = j.id)
UNION ALL
SELECT 'P3', j.id, 'has key ' || j.serialization_key || ', is ' || j.status || ' and not its head'
FROM asyncjobs.jobs AS j
WHERE j.serialization_key IS NOT NULL AND j.status IN ('pending', 'processing', 'failed')
    AND NOT EXISTS (SELECT FROM line WHERE line.id = j.id AND line.dispatched)
ORDER BY 2, 1;
