-- These jobs, also while they wait behind others of their keys; the highest id first.
SELECT j.id, j.type, j.status, j.queue, j.lane, j.version, j.payload, j.priority, j.attempts, j.max_attempts, j.timeout, j.snoozes,
    j.rescues, j.scheduled_at, j.run_at, j.started_at, j.completed_at, j.error_message, j.last_error, j.last_error_at, j.errors,
    j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key, j.serialization_key, j.result, j.result_dropped, j.progress,
    j.requeued_from, j.trace_context, j.created_at, j.updated_at
FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1::bigint[])
UNION ALL
SELECT s.id, s.type, 'waiting', s.queue, s.lane, s.version, s.payload, s.priority, 0, s.max_attempts, s.timeout, 0,
    0, s.scheduled_at, s.scheduled_at, NULL, NULL, NULL, NULL, NULL, '[]'::jsonb,
    s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, NULL, NULL, NULL,
    s.requeued_from, s.trace_context, s.created_at, s.created_at
FROM asyncjobs.serialized_jobs AS s
WHERE s.id = ANY ($1::bigint[]) AND s.job_id IS NULL AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = s.id)
ORDER BY id DESC;
