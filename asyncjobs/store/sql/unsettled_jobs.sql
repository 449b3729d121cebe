-- What runners of these queues, types and versions have to do now, for tests: neither what is not due or paused, nor what waits for such.
SELECT j.id, j.type, j.status
FROM asyncjobs.jobs AS j
WHERE j.queue = ANY ($1::text[]) AND j.type = ANY ($2::text[]) AND asyncjobs.can_run($3::jsonb, j.type, j.version)
  AND (j.status = 'processing'
       OR ((j.status = 'pending' OR (j.status IN ('scheduled', 'failed') AND j.run_at <= asyncjobs.clock()))
           AND NOT asyncjobs.is_paused(j.type, j.serialization_key)))
UNION ALL
SELECT s.id, s.type, 'waiting'
FROM asyncjobs.serialized_jobs AS s
WHERE s.queue = ANY ($1::text[]) AND s.type = ANY ($2::text[]) AND asyncjobs.can_run($3::jsonb, s.type, s.version) AND s.job_id IS NULL
  AND NOT asyncjobs.is_paused(s.type, s.serialization_key)
  AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h
                  WHERE h.serialization_key = s.serialization_key AND (h.job_id IS NOT NULL OR h.place < s.place))
ORDER BY 1;
