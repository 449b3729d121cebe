-- What attempts of each type did in the last so many seconds, by what they made of their jobs.
SELECT m.job_type, m.status, pg_catalog.sum(m.count)::bigint AS count, asyncjobs.sum_histograms(m.queue_time) AS queue_time,
    asyncjobs.sum_histograms(m.run_time) AS run_time
FROM asyncjobs.job_metrics AS m
WHERE m.span IN (interval '1 minute', interval '1 hour', interval '1 day')
    AND m.minute > asyncjobs.clock() - pg_catalog.make_interval(secs => $2::float8) - m.span
    AND ($1::text IS NULL OR m.job_type = $1::text)
GROUP BY m.job_type, m.status
ORDER BY m.job_type, m.status
