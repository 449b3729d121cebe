-- What attempts did in the last $2 seconds, twice in one reading: by steps of $1 seconds, and by type. Both have the same rows. And the database's time.
WITH found AS NOT MATERIALIZED (
    SELECT pg_catalog.date_bin(pg_catalog.make_interval(secs => $1::float8), m.minute, timestamptz 'epoch') AS at,
        m.job_type, m.status, m.count, m.queue_time, m.run_time
    FROM asyncjobs.job_metrics AS m
    WHERE m.span IN (interval '1 minute', interval '1 hour', interval '6 hours', interval '1 day')
        AND m.minute >= pg_catalog.date_bin(
            pg_catalog.make_interval(secs => $1::float8),
            asyncjobs.clock() - pg_catalog.make_interval(secs => $2::float8 - $1::float8), timestamptz 'epoch')
    OFFSET 0)  -- or steps are computed for each bucket, which takes as long as all else
SELECT f.at, f.job_type, 'status' AS what, f.status AS name, pg_catalog.sum(f.count)::bigint AS count
FROM found AS f GROUP BY GROUPING SETS ((f.at, f.status), (f.job_type, f.status))
UNION ALL
SELECT q.at, q.job_type, 'queue', q.bucket::text, pg_catalog.sum(q.count)::bigint
FROM (
    SELECT u.at, u.job_type, u.packed >> 40 AS bucket, u.packed & 1099511627775 AS count
    FROM (SELECT f.at, f.job_type, pg_catalog.unnest(f.queue_time) AS packed FROM found AS f) AS u) AS q
GROUP BY GROUPING SETS ((q.at, q.bucket), (q.job_type, q.bucket))
UNION ALL
SELECT r.at, r.job_type, 'run', r.bucket::text, pg_catalog.sum(r.count)::bigint
FROM (
    SELECT u.at, u.job_type, u.packed >> 40 AS bucket, u.packed & 1099511627775 AS count
    FROM (SELECT f.at, f.job_type, pg_catalog.unnest(f.run_time) AS packed FROM found AS f) AS u) AS r
GROUP BY GROUPING SETS ((r.at, r.bucket), (r.job_type, r.bucket))
UNION ALL
SELECT asyncjobs.clock(), NULL, 'now', '', 0;
