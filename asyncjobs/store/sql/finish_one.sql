-- One call of a runner: an attempt that completed, and its key's next head.
SELECT f.kind, f.scan, f.queue, f.id, f.token, f.lane, f.type, f.version, f.payload, f.priority, f.place, f.attempts,
    f.max_attempts, date_part('epoch', asyncjobs.span(f.timeout)) AS timeout_seconds, f.snoozes, f.rescues,
    date_part('epoch', asyncjobs.instant(f.scheduled_at)) AS scheduled_epoch,
    date_part('epoch', asyncjobs.instant(f.run_at)) AS run_epoch, date_part('epoch', f.started_at) AS started_epoch,
    f.correlation_id, f.parent_job_id, f.created_by, f.dedup_key, f.serialization_key, f.requeued_from, f.trace_context,
    f.progress, f.last_error, date_part('epoch', asyncjobs.instant(f.created_at)) AS created_epoch
FROM asyncjobs.finish_one($1, $2, $3, $4, $5, $6, $7, $8) AS f;
