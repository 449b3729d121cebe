-- A runner that stops on its own moves to the former ones, without a death. Twice is the same as once.
WITH gone AS (
    DELETE FROM asyncjobs.runners AS r WHERE r.id = $1::bigint
    RETURNING r.id, r.started_at, r.host, r.pid, r.version, r.queues, r.types
)
INSERT INTO asyncjobs.former_runners (id, started_at, host, pid, version, queues, types)
SELECT g.id, g.started_at, g.host, g.pid, g.version, g.queues, g.types FROM gone AS g
