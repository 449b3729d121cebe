-- What attempts of each type did in the last so many seconds: what they made of their jobs, and the buckets of the histograms. Taken apart and
-- counted, which is four times as fast as adding histograms up as jsonb; read three times, since what is put aside goes to a file.
WITH found AS NOT MATERIALIZED (
    SELECT m.job_type, m.status, m.count, m.queue_time, m.run_time
    FROM asyncjobs.job_metrics AS m
    WHERE m.span IN (interval '1 minute', interval '1 hour', interval '6 hours', interval '1 day')
        AND m.minute > asyncjobs.clock() - pg_catalog.make_interval(secs => $2::float8) - m.span
        AND ($1::text IS NULL OR m.job_type = $1::text))
SELECT f.job_type, 'status' AS what, f.status AS name, pg_catalog.sum(f.count)::bigint AS count
FROM found AS f GROUP BY f.job_type, f.status
UNION ALL
SELECT f.job_type, 'queue', q.key, pg_catalog.sum(q.value::bigint)::bigint
FROM found AS f CROSS JOIN LATERAL pg_catalog.jsonb_each_text(f.queue_time) AS q GROUP BY f.job_type, q.key
UNION ALL
SELECT f.job_type, 'run', r.key, pg_catalog.sum(r.value::bigint)::bigint
FROM found AS f CROSS JOIN LATERAL pg_catalog.jsonb_each_text(f.run_time) AS r GROUP BY f.job_type, r.key;
