-- A page of dead letters, the newest first: those that fit the filter, below the id $1.
SELECT d.id, d.job_id, d.original_job ->> 'type' AS type, d.original_job ->> 'queue' AS queue,
    d.original_job ->> 'serialization_key' AS serialization_key, d.original_job ->> 'correlation_id' AS correlation_id,
    d.error_message, coalesce((d.error_details ->> 'attempts')::integer, 0) AS attempts, asyncjobs.instant(d.died_at) AS died_at, d.acknowledged, d.acknowledged_by,
    asyncjobs.instant(d.acknowledged_at) AS acknowledged_at, d.requeued_as, d.requeue_count
FROM asyncjobs.dead_letter_jobs AS d
WHERE ($1::bigint IS NULL OR d.id < $1::bigint) AND ($3::bigint IS NULL OR d.id = $3::bigint)
    AND ($4::text IS NULL OR d.original_job ->> 'type' = $4::text)
    AND ($5::text IS NULL OR d.original_job ->> 'queue' = $5::text)
    AND ($6::text IS NULL OR d.original_job ->> 'serialization_key' = $6::text)
    AND ($7::text IS NULL OR d.original_job ->> 'correlation_id' = $7::text)
    AND ($8::text IS NULL OR pg_catalog.strpos(pg_catalog.lower(d.error_message), pg_catalog.lower($8::text)) > 0)
    AND ($9::timestamptz IS NULL OR d.died_at >= $9::timestamptz)
    AND ($10::timestamptz IS NULL OR d.died_at < $10::timestamptz)
    AND ($11::boolean IS NULL OR d.acknowledged = $11::boolean)
ORDER BY d.id DESC LIMIT $2::integer
