-- Spans begin at midnight UTC, or at a multiple of their length from there.
CREATE FUNCTION asyncjobs.fold_oldest(_from interval, _to interval, _before timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _start timestamptz;
    _rows integer;
    _sums asyncjobs.job_metrics[];
BEGIN
    SELECT date_bin(_to, min(m.minute), timestamptz 'epoch') INTO _start FROM asyncjobs.job_metrics AS m WHERE m.span = _from;
    IF _start IS NULL OR _start + _to > _before THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM asyncjobs.job_metrics AS m WHERE m.span = _from AND m.minute >= _start AND m.minute < _start + _to
        RETURNING m.job_type, m.status, m.count, m.queue_seconds, m.run_seconds, m.queue_time, m.run_time),
    sums AS (
        SELECT g.job_type, g.status, count(1) AS rows, sum(g.count)::bigint AS count, sum(g.queue_seconds) AS queue_seconds,
            sum(g.run_seconds) AS run_seconds, asyncjobs.sum_histograms(g.queue_time) AS queue_time,
            asyncjobs.sum_histograms(g.run_time) AS run_time
        FROM gone AS g GROUP BY g.job_type, g.status)
    SELECT sum(s.rows), array_agg(ROW(s.job_type, s.status, _start, _to, s.count, s.queue_seconds, s.run_seconds, s.queue_time,
        s.run_time)::asyncjobs.job_metrics)
    INTO _rows, _sums FROM sums AS s;
    PERFORM asyncjobs.add_metrics(_sums);
    RETURN _rows;
END $$;
