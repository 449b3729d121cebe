-- The jobs of a correlation id, also those that wait behind others of their keys.
SELECT j.id, j.type, j.status, j.queue, j.lane, j.version, j.payload, j.priority, j.attempts, j.max_attempts,
    asyncjobs.span(j.timeout) AS timeout, j.snoozes, j.rescues, asyncjobs.instant(j.scheduled_at) AS scheduled_at,
    asyncjobs.instant(j.run_at) AS run_at, asyncjobs.instant(j.started_at) AS started_at,
    asyncjobs.instant(j.completed_at) AS completed_at, j.error_message, j.last_error,
    asyncjobs.instant(j.last_error_at) AS last_error_at, j.errors, j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key,
    j.serialization_key, j.result, j.result_dropped, j.progress, j.requeued_from, j.trace_context,
    asyncjobs.instant(j.created_at) AS created_at, asyncjobs.instant(j.updated_at) AS updated_at
FROM asyncjobs.jobs AS j WHERE j.correlation_id = $1::text
UNION ALL
SELECT s.id, s.type, 'waiting', s.queue, s.lane, s.version, s.payload, s.priority, 0, s.max_attempts, asyncjobs.span(s.timeout),
    0, 0, asyncjobs.instant(s.scheduled_at), asyncjobs.instant(s.scheduled_at), NULL, NULL, NULL, NULL, NULL, '[]'::jsonb,
    s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, NULL, NULL, NULL, s.requeued_from,
    s.trace_context, asyncjobs.instant(s.created_at), asyncjobs.instant(s.created_at)
FROM asyncjobs.serialized_jobs AS s
WHERE s.correlation_id = $1::text AND s.job_id IS NULL AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = s.id)
ORDER BY created_at, id LIMIT $2::integer;
