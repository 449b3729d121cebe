-- Of the jobs $1 that have not ended, one of each kind: what a handler that waits for them, with the key $2, has to know.
SELECT pg_catalog.min(j.id) AS id, j.type, j.queue, j.lane, j.serialization_key IS NOT DISTINCT FROM $2::text AND $2 IS NOT NULL AS is_behind
FROM asyncjobs.jobs AS j
WHERE j.id = ANY ($1::bigint[]) AND j.status <> ALL ('{completed,dead,cancelled}'::text[])
GROUP BY 2, 3, 4, 5 ORDER BY 1;
