-- Jobs as `model/job.py` has them: the one list of columns of an answer.
CREATE VIEW asyncjobs.readable_jobs AS
SELECT j.id, j.type, j.status, j.queue, j.lane, j.version, j.payload, j.priority, j.attempts, j.max_attempts,
    asyncjobs.span(j.timeout) AS timeout, j.snoozes, j.rescues, asyncjobs.instant(j.scheduled_at) AS scheduled_at,
    asyncjobs.instant(j.run_at) AS run_at, asyncjobs.instant(j.started_at) AS started_at,
    asyncjobs.instant(j.completed_at) AS completed_at, j.error_message, j.last_error,
    asyncjobs.instant(j.last_error_at) AS last_error_at, j.errors, j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key,
    j.serialization_key, j.limit_key, j.result, j.result_dropped, j.progress, j.requeued_from, j.trace_context,
    coalesce(j.tags, '{}') AS tags, asyncjobs.instant(j.start_before) AS start_before, j.dedup_until, j.keep_payload, j.workflow_id,
    asyncjobs.instant(j.created_at) AS created_at, asyncjobs.instant(j.updated_at) AS updated_at
FROM asyncjobs.jobs AS j;
