-- What runners of these queues, types and versions have to do now, for tests, what has expired among it: neither what is not due or
-- paused, nor what waits for such. What the folders have to do is work, too. The time is that after the look's snapshot: a retry that was
-- due at once may have come between it and the transaction's start.
SELECT j.id, j.type, j.status
FROM asyncjobs.jobs AS j LEFT JOIN asyncjobs.serialized_jobs AS s ON s.id = j.id CROSS JOIN (SELECT asyncjobs.moment() AS now OFFSET 0) AS m
WHERE j.queue = ANY ($1::text[]) AND j.type = ANY ($2::text[]) AND asyncjobs.can_run($3::jsonb, j.type, j.version)
  AND (j.status = 'processing' OR (j.start_before <= m.now AND j.status IN ('waiting', 'scheduled', 'failed', 'paused'))
       OR ((j.status = 'pending' OR (j.status IN ('scheduled', 'failed') AND j.run_at <= m.now)
            OR (j.status = 'waiting' AND s.dispatched_at IS NULL
                AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h WHERE h.serialization_key = s.serialization_key
                                AND (h.dispatched_at IS NOT NULL OR h.place < s.place))))
           AND NOT asyncjobs.is_paused(j.type, j.serialization_key)))
UNION ALL
SELECT g.id, w.name, 'a workflow, of which a gate is to be folded'
FROM asyncjobs.gates AS g JOIN asyncjobs.workflows AS w ON w.id = g.workflow_id
WHERE g.releasing OR EXISTS (SELECT FROM asyncjobs.arrivals AS a WHERE a.gate_id = g.id)
ORDER BY id;
