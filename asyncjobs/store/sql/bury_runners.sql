-- Delete runners that were seen without a beat for too long, if their beat is still the one that was seen. A row that is locked is a
-- runner that beats, or claims, at this moment: it is left alone. Jobs are taken back by the *next* statement, whose snapshot sees
-- every claim that the deleted rows had let through; together, in one, claims in flight were left without an owner for ever. One that
-- stopped by itself has not died. Their leases are free: a runner that is dead before they expire has no process any more.
WITH still AS MATERIALIZED (
    SELECT r.id FROM asyncjobs.runners AS r
    JOIN unnest($1::bigint[], $2::bigint[]) AS seen(id, beat) ON r.id = seen.id AND r.beat = seen.beat
    ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
), gone AS (
    DELETE FROM asyncjobs.runners AS r USING still WHERE r.id = still.id
    RETURNING r.id, r.started_at, r.stopped_at, r.host, r.pid, r.version, r.queues, r.types, r.versions, r.duties, r.name
), freed AS (
    UPDATE asyncjobs.background_job_leases AS l SET held_by_worker_id = 'none' FROM gone AS g WHERE l.held_by_worker_id = g.id::text
)
INSERT INTO asyncjobs.former_runners AS f (id, started_at, died_at, stopped_at, host, pid, version, queues, types, versions, duties, name)
SELECT g.id, g.started_at, CASE WHEN g.stopped_at IS NULL THEN asyncjobs.clock() END, g.stopped_at, g.host, g.pid, g.version, g.queues,
    g.types, g.versions, g.duties, g.name
FROM gone AS g
RETURNING f.id, f.died_at IS NOT NULL AS died
