-- These dead letters, the newest first.
SELECT d.id, d.job_id, coalesce(d.original_job ->> 'type', '?') AS type, coalesce(d.original_job ->> 'queue', '?') AS queue,
    d.original_job ->> 'serialization_key' AS serialization_key,
    coalesce(d.original_job ->> 'correlation_id', asyncjobs.own_trace(d.job_id)) AS correlation_id,
    d.error_message, coalesce(asyncjobs.read_number(d.error_details ->> 'attempts')::bigint, 0) AS attempts,
    asyncjobs.instant(d.died_at) AS died_at, d.acknowledged, d.acknowledged_by,
    asyncjobs.instant(d.acknowledged_at) AS acknowledged_at, d.requeued_as, d.requeue_count
FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id DESC;
