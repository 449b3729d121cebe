-- The runners that are registered, and the last $1 of the former ones; the youngest first.
SELECT r.id, r.host, r.pid, r.version, r.queues, r.types, r.duties, asyncjobs.instant(r.started_at) AS started_at,
    asyncjobs.instant(r.beat_at) AS beat_at,
    NULL::timestamptz AS ended_at, NULL::timestamptz AS died_at, r.versions, r.troubles,
    asyncjobs.instant(r.stopped_at) AS stopped_at, r.name,
    r.session IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = r.session) AS is_cut_off
FROM asyncjobs.runners AS r
UNION ALL
(SELECT f.id, f.host, f.pid, f.version, f.queues, f.types, f.duties, asyncjobs.instant(f.started_at), NULL, asyncjobs.instant(f.ended_at),
    asyncjobs.instant(f.died_at), f.versions, '{}',
    asyncjobs.instant(f.stopped_at), f.name, false
 FROM asyncjobs.former_runners AS f ORDER BY f.ended_at DESC LIMIT $1::integer)
ORDER BY started_at DESC, id
