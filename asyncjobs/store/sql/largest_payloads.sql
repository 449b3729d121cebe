-- The largest payloads among the newest $2 jobs, by their bytes as text: what a runner holds in memory. ($1: how many)
SELECT n.id, n.type, n.queue, n.status, pg_catalog.octet_length(n.payload::text) AS bytes
FROM (SELECT j.id, j.type, j.queue, j.status, j.payload FROM asyncjobs.jobs AS j ORDER BY j.id DESC LIMIT $2::integer) AS n
ORDER BY bytes DESC, n.id LIMIT $1::integer
