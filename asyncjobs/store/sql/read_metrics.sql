-- What attempts of each type did in the last so many seconds: what they made of their jobs, and the buckets of the histograms. Read three
-- times, since what is put aside goes to a file.
WITH found AS NOT MATERIALIZED (
    SELECT m.job_type, m.status, m.count, m.queue_time, m.run_time
    FROM asyncjobs.job_metrics AS m
    WHERE m.span IN (interval '1 minute', interval '1 hour', interval '6 hours', interval '1 day')
        AND m.minute > asyncjobs.clock() - pg_catalog.make_interval(secs => $2::float8) - m.span
        AND ($1::text IS NULL OR m.job_type = $1::text))
SELECT f.job_type, 'status' AS what, f.status AS name, pg_catalog.sum(f.count)::bigint AS count
FROM found AS f GROUP BY f.job_type, f.status
UNION ALL
SELECT q.job_type, 'queue', (q.packed >> 40)::text, pg_catalog.sum(q.packed & 1099511627775)::bigint
FROM (SELECT f.job_type, pg_catalog.unnest(f.queue_time) AS packed FROM found AS f) AS q GROUP BY q.job_type, q.packed >> 40
UNION ALL
SELECT r.job_type, 'run', (r.packed >> 40)::text, pg_catalog.sum(r.packed & 1099511627775)::bigint
FROM (SELECT f.job_type, pg_catalog.unnest(f.run_time) AS packed FROM found AS f) AS r GROUP BY r.job_type, r.packed >> 40;
