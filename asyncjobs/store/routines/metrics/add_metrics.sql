-- Add these rows to what there is of their spans. They are taken in the order of their keys: runners that roll up at the same time wait
-- for each other, and never in a circle.
CREATE FUNCTION asyncjobs.add_metrics(_rows asyncjobs.job_metrics[]) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.job_metrics AS m (job_type, status, minute, span, count, queue_seconds, run_seconds, queue_time, run_time)
    SELECT r.job_type, r.status, r.minute, r.span, r.count, r.queue_seconds, r.run_seconds, r.queue_time, r.run_time
    FROM unnest(_rows) AS r ORDER BY r.span, r.minute, r.job_type, r.status
    ON CONFLICT (span, minute, job_type, status) DO UPDATE SET
        count = m.count + excluded.count,
        queue_seconds = m.queue_seconds + excluded.queue_seconds,
        run_seconds = m.run_seconds + excluded.run_seconds,
        queue_time = asyncjobs.add_histograms(m.queue_time, excluded.queue_time),
        run_time = asyncjobs.add_histograms(m.run_time, excluded.run_time);
END $$;
