-- Workflows that have not ended, and since when the oldest is there, by whether they are being cancelled.
SELECT w.cancel_requested_at IS NOT NULL AS is_cancelling, pg_catalog.count(1) AS count,
    greatest(extract(epoch FROM asyncjobs.clock() - asyncjobs.instant(pg_catalog.min(w.created_at))), 0)::float8 AS oldest_age_seconds
FROM asyncjobs.workflows AS w WHERE w.ended_at IS NULL GROUP BY 1;
