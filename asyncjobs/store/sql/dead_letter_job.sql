-- The job of a dead letter as it was when it died, with the errors of its attempts.
SELECT j.* FROM asyncjobs.dead_letter_jobs AS d
CROSS JOIN LATERAL pg_catalog.jsonb_populate_record(
    NULL::asyncjobs.readable_jobs, d.original_job || pg_catalog.jsonb_build_object('errors', coalesce(d.error_details -> 'errors', '[]'))) AS j
WHERE d.id = $1::bigint
