-- What runners of these queues, types and versions have to do now, for tests, what has expired among it: neither what is not due or
-- paused, nor what waits for such.
SELECT j.id, j.type, j.status
FROM asyncjobs.jobs AS j LEFT JOIN asyncjobs.serialized_jobs AS s ON s.id = j.id
WHERE j.queue = ANY ($1::text[]) AND j.type = ANY ($2::text[]) AND asyncjobs.can_run($3::jsonb, j.type, j.version)
  AND (j.status = 'processing' OR (j.start_before <= asyncjobs.clock() AND j.status IN ('waiting', 'scheduled', 'failed', 'paused'))
       OR ((j.status = 'pending' OR (j.status IN ('scheduled', 'failed') AND j.run_at <= asyncjobs.clock())
            OR (j.status = 'waiting' AND s.dispatched_at IS NULL
                AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h WHERE h.serialization_key = s.serialization_key
                                AND (h.dispatched_at IS NOT NULL OR h.place < s.place))))
           AND NOT asyncjobs.is_paused(j.type, j.serialization_key)))
ORDER BY j.id;
