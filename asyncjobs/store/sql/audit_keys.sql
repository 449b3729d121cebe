-- What no dispatch would ever mend in the lines of serialization keys, and jobs with a key that run outside of its line. A follower is
-- processing and no head (routines/finish); of a runner that is there, so is all that stands between it and the front.
WITH line AS MATERIALIZED (
    SELECT s.id, s.serialization_key AS key, s.place, s.dispatched_at IS NOT NULL AS dispatched, s.halted_at IS NOT NULL AS halted,
        j.status, j.runner_id, j.status = 'processing' AND s.dispatched_at IS NULL AS follows
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
FROM line WHERE NOT line.dispatched AND line.status NOT IN ('waiting', 'paused') AND NOT line.follows
UNION ALL
SELECT 'P3', line.id, 'follows in key ' || line.key || ' behind a job that does not run'
FROM line WHERE line.follows AND EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = line.runner_id)
    AND EXISTS (SELECT FROM line AS front WHERE front.key = line.key AND front.place < line.place AND NOT front.dispatched
        AND (NOT front.follows OR front.runner_id <> line.runner_id))
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
    AND NOT EXISTS (SELECT FROM line WHERE line.id = j.id AND (line.dispatched OR line.follows))
ORDER BY 2, 1;
