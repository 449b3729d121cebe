-- What attempts did, by steps of $2 seconds within the last $3: their counts, and the buckets of the histograms, over all types, of one,
-- or ($4) of those that are declared for a queue. And the database's time.
WITH found AS NOT MATERIALIZED (
    SELECT pg_catalog.date_bin(pg_catalog.make_interval(secs => $2::float8), m.minute, timestamptz 'epoch') AS at,
        m.status, m.count, m.queue_time, m.run_time
    FROM asyncjobs.job_metrics AS m
    WHERE m.span IN (interval '1 minute', interval '1 hour', interval '6 hours', interval '1 day')
        AND m.minute >= pg_catalog.date_bin(
            pg_catalog.make_interval(secs => $2::float8),
            asyncjobs.clock() - pg_catalog.make_interval(secs => $3::float8 - $2::float8), timestamptz 'epoch')
        AND ($1::text IS NULL OR m.job_type = $1::text)
        AND ($4::text IS NULL OR m.job_type = ANY (ARRAY(SELECT t.type FROM asyncjobs.types AS t WHERE t.queue = $4::text)))
    OFFSET 0)  -- or steps are computed for each bucket, which takes as long as all else
SELECT f.at, 'status' AS what, f.status AS name, pg_catalog.sum(f.count)::bigint AS count FROM found AS f GROUP BY f.at, f.status
UNION ALL
SELECT q.at, 'queue', (q.packed >> 40)::text, pg_catalog.sum(q.packed & 1099511627775)::bigint
FROM (SELECT f.at, pg_catalog.unnest(f.queue_time) AS packed FROM found AS f) AS q GROUP BY q.at, q.packed >> 40
UNION ALL
SELECT r.at, 'run', (r.packed >> 40)::text, pg_catalog.sum(r.packed & 1099511627775)::bigint
FROM (SELECT f.at, pg_catalog.unnest(f.run_time) AS packed FROM found AS f) AS r GROUP BY r.at, r.packed >> 40
UNION ALL
SELECT asyncjobs.clock(), 'now', '', 0;
