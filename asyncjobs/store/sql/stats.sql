-- What is not finished, by queue, type and status, read from the partial indexes and not from the finished rows.
SELECT v.queue, v.type, v.status, pg_catalog.sum(v.count)::bigint AS count, asyncjobs.instant(pg_catalog.min(v.since)) AS oldest_at,
    coalesce(pg_catalog.sum(v.count) FILTER (WHERE NOT v.served), 0)::bigint AS unserved
FROM (
    SELECT c.queue, c.type, c.status, c.count, c.since, asyncjobs.is_served(c.queue, c.type, c.version) AS served
    FROM (
        SELECT l.queue, l.type, l.status, l.version, pg_catalog.count(1) AS count, pg_catalog.min(l.since) AS since
        FROM asyncjobs.live_jobs AS l GROUP BY l.queue, l.type, l.status, l.version) AS c) AS v
GROUP BY v.queue, v.type, v.status
ORDER BY v.queue, v.type, v.status;
