-- What attempts did, by steps of $2 seconds within the last $3: their counts, and the buckets of the histograms, over all types or of one.
WITH found AS NOT MATERIALIZED (
    SELECT pg_catalog.date_bin(pg_catalog.make_interval(secs => $2::float8), m.minute, timestamptz 'epoch') AS at,
        m.status, m.count, m.queue_time, m.run_time
    FROM asyncjobs.job_metrics AS m
    WHERE m.span IN (interval '1 minute', interval '1 hour', interval '6 hours', interval '1 day')
        AND m.minute >= pg_catalog.date_bin(
            pg_catalog.make_interval(secs => $2::float8),
            asyncjobs.clock() - pg_catalog.make_interval(secs => $3::float8 - $2::float8), timestamptz 'epoch')
        AND ($1::text IS NULL OR m.job_type = $1::text)
    OFFSET 0)  -- or steps are computed for each bucket, which takes as long as all else
SELECT f.at, 'status' AS what, f.status AS name, pg_catalog.sum(f.count)::bigint AS count FROM found AS f GROUP BY f.at, f.status
UNION ALL
SELECT f.at, 'queue', q.key, pg_catalog.sum(q.value::bigint)::bigint
FROM found AS f CROSS JOIN LATERAL pg_catalog.jsonb_each_text(f.queue_time) AS q GROUP BY f.at, q.key
UNION ALL
SELECT f.at, 'run', r.key, pg_catalog.sum(r.value::bigint)::bigint
FROM found AS f CROSS JOIN LATERAL pg_catalog.jsonb_each_text(f.run_time) AS r GROUP BY f.at, r.key;
