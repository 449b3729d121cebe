-- These jobs for a list, the highest id first: of payloads and errors only the beginning, and nothing of a payload that is large.
SELECT j.id, j.type, j.status, j.queue, j.lane, j.priority, j.attempts, j.max_attempts, j.serialization_key,
    coalesce(j.correlation_id, asyncjobs.own_trace(j.id)) AS correlation_id,
    j.parent_job_id, asyncjobs.instant(j.run_at) AS run_at, asyncjobs.instant(j.created_at) AS created_at,
    asyncjobs.instant(j.started_at) AS started_at, asyncjobs.instant(j.completed_at) AS completed_at,
    pg_catalog.left(coalesce(j.error_message, j.last_error), 400) AS error, pg_catalog.pg_column_size(j.payload) AS payload_bytes,
    CASE WHEN pg_catalog.pg_column_size(j.payload) < 2000 THEN pg_catalog.left(asyncjobs.shown_payload(j.type, j.payload, $2::jsonb)::text, 300) END AS payload_start
FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1::bigint[])
ORDER BY j.id DESC;
