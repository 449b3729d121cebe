-- The job of a dead letter as it was when it died, with the errors of its attempts.
SELECT j.id, j.type, j.status, j.queue, j.lane, j.version, j.payload, j.priority, j.attempts, j.max_attempts, j.timeout, j.snoozes,
    j.rescues, j.scheduled_at, j.run_at, j.started_at, j.completed_at, j.error_message, j.last_error, j.last_error_at,
    coalesce(d.error_details -> 'errors', '[]') AS errors,
    j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key, j.serialization_key, j.result, j.result_dropped, j.progress,
    j.requeued_from, j.trace_context, j.created_at, j.updated_at
FROM asyncjobs.dead_letter_jobs AS d
CROSS JOIN LATERAL jsonb_populate_record(NULL::asyncjobs.jobs, d.original_job) AS j WHERE d.id = $1::bigint
