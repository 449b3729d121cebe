-- The job of a dead letter as it was when it died, with the errors of its attempts.
SELECT j.id, j.type, j.status, j.queue, j.lane, j.version, j.payload, j.priority, j.attempts, j.max_attempts,
    asyncjobs.span(j.timeout) AS timeout, j.snoozes, j.rescues, asyncjobs.instant(j.scheduled_at) AS scheduled_at,
    asyncjobs.instant(j.run_at) AS run_at, asyncjobs.instant(j.started_at) AS started_at,
    asyncjobs.instant(j.completed_at) AS completed_at, j.error_message, j.last_error,
    asyncjobs.instant(j.last_error_at) AS last_error_at, coalesce(d.error_details -> 'errors', '[]') AS errors,
    j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key, j.serialization_key, j.result, j.result_dropped, j.progress,
    j.requeued_from, j.trace_context, asyncjobs.instant(j.created_at) AS created_at,
    asyncjobs.instant(j.updated_at) AS updated_at
FROM asyncjobs.dead_letter_jobs AS d
CROSS JOIN LATERAL jsonb_populate_record(NULL::asyncjobs.jobs, d.original_job) AS j WHERE d.id = $1::bigint
