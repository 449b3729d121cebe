-- Add what a runner counted, an array of objects, to the rows of this minute.
CREATE FUNCTION asyncjobs.record_metrics(_tallies jsonb) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.add_metrics(ARRAY(
        SELECT ROW(c.job_type, c.status, date_trunc('minute', asyncjobs.clock(), 'UTC'), interval '1 minute', c.count, c.queue_seconds,
            c.run_seconds, asyncjobs.pack_histogram(c.queue_time), asyncjobs.pack_histogram(c.run_time))::asyncjobs.job_metrics
        FROM jsonb_to_recordset(_tallies)
            AS c(job_type text, status text, count bigint, queue_seconds float8, run_seconds float8, queue_time jsonb, run_time jsonb)));
END $$;
