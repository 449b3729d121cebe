-- When the next job of these queues and types becomes due, for tests.
SELECT asyncjobs.instant(pg_catalog.min(j.run_at)) AS run_at
FROM asyncjobs.jobs AS j
WHERE j.status IN ('scheduled', 'failed') AND j.queue = ANY ($1::text[]) AND j.type = ANY ($2::text[])
  AND NOT asyncjobs.is_paused(j.type, j.serialization_key);
