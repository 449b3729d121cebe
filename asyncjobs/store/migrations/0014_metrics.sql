-- What attempts did, rolled up: a row per type, status and minute, later per hour and per day, with histograms of its durations.

-- `status` is what the attempt made of its job: completed, failed (it will be tried again), scheduled (snoozed), dead, cancelled. An
-- attempt that was interrupted and given back is none. Histograms are objects from bucket to count: bucket n ends at 1.04^n
-- microseconds. `minute` is when the span begins, in which the runner rolled the attempts up.
-- Full pages: 97.7 % of the updates of 100 rows that share a minute were HOT, at 70 % all, but rows are kept for months.
CREATE TABLE asyncjobs.job_metrics (
    job_type text NOT NULL,
    status text NOT NULL,
    minute timestamptz NOT NULL,
    span interval NOT NULL DEFAULT '1 minute',
    count bigint NOT NULL CHECK (count > 0),
    queue_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    queue_time jsonb NOT NULL,
    run_time jsonb NOT NULL,
    PRIMARY KEY (span, minute, job_type, status)
);

CREATE FUNCTION asyncjobs.add_histograms(jsonb, jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(b.key, b.count), '{}')
    FROM (SELECT e.key, sum(e.value::bigint) AS count
          FROM (SELECT a.key, a.value FROM jsonb_each_text($1) AS a UNION ALL SELECT b.key, b.value FROM jsonb_each_text($2) AS b) AS e
          GROUP BY e.key) AS b
$$;

CREATE AGGREGATE asyncjobs.sum_histograms(jsonb) (
    SFUNC = asyncjobs.add_histograms, STYPE = jsonb, INITCOND = '{}', COMBINEFUNC = asyncjobs.add_histograms, PARALLEL = SAFE);

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

-- Add what a runner counted, an array of objects, to the rows of this minute.
CREATE FUNCTION asyncjobs.record_metrics(_tallies jsonb) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.add_metrics(ARRAY(
        SELECT ROW(c.job_type, c.status, date_trunc('minute', asyncjobs.clock(), 'UTC'), interval '1 minute', c.count, c.queue_seconds,
            c.run_seconds, c.queue_time, c.run_time)::asyncjobs.job_metrics
        FROM jsonb_to_recordset(_tallies)
            AS c(job_type text, status text, count bigint, queue_seconds float8, run_seconds float8, queue_time jsonb, run_time jsonb)));
END $$;

-- Make one row of the rows of an hour's minutes, and of a day's hours, the oldest first: one hour and one day a call. Rows that
-- runners may still add to are never old enough.
CREATE FUNCTION asyncjobs.fold_metrics(
    _minutes interval, _hours interval, _days interval,  -- how long rows of each kind are kept
    OUT folded integer,   -- rows that went into others
    OUT deleted integer,
    OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _rows integer;
BEGIN
    folded := asyncjobs.fold_oldest('1 minute', 'hour', '1 hour', date_trunc('hour', _now - _minutes, 'UTC'));
    _rows := asyncjobs.fold_oldest('1 hour', 'day', '1 day', date_trunc('day', _now - _hours, 'UTC'));
    folded := folded + _rows;
    DELETE FROM asyncjobs.job_metrics AS m WHERE m.span = '1 day' AND m.minute < _now - _days;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := folded > 0;
END $$;

CREATE FUNCTION asyncjobs.fold_oldest(_from interval, _unit text, _to interval, _before timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _start timestamptz;
    _rows integer;
    _sums asyncjobs.job_metrics[];
BEGIN
    SELECT date_trunc(_unit, min(m.minute), 'UTC') INTO _start FROM asyncjobs.job_metrics AS m WHERE m.span = _from;
    IF _start IS NULL OR _start >= _before THEN
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

-- How each type fares: what is unfinished, from the partial indexes, and what ended in the last hour, from the roll-ups. `oldest` is
-- since when the oldest is due, runs or waits (of those that ended: the first minute that counts); `average_wait` is how long they have
-- been waiting (of those that run or ended: how long they had waited when they started).
CREATE VIEW asyncjobs.job_queue_health AS
SELECT u.type, u.status, pg_catalog.count(1) AS count, pg_catalog.min(u.since) AS oldest, pg_catalog.avg(u.waited) AS average_wait
FROM (
    SELECT j.type, j.status, j.run_at AS since, asyncjobs.clock() - j.run_at AS waited FROM asyncjobs.jobs AS j WHERE j.status = 'pending'
    UNION ALL
    SELECT j.type, j.status, j.run_at, greatest(asyncjobs.clock() - j.run_at, interval '0') FROM asyncjobs.jobs AS j
    WHERE j.status IN ('scheduled', 'failed')
    UNION ALL
    SELECT j.type, j.status, j.started_at, j.started_at - j.run_at FROM asyncjobs.jobs AS j
    WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
    UNION ALL
    SELECT s.type, 'waiting', s.created_at, asyncjobs.clock() - s.created_at FROM asyncjobs.serialized_jobs AS s WHERE s.job_id IS NULL
) AS u
GROUP BY u.type, u.status
UNION ALL
SELECT m.job_type, m.status, pg_catalog.sum(m.count)::bigint, pg_catalog.min(m.minute),
    pg_catalog.make_interval(secs => pg_catalog.sum(m.queue_seconds) / pg_catalog.sum(m.count)::float8)
FROM asyncjobs.job_metrics AS m
WHERE m.span = interval '1 minute' AND m.minute > asyncjobs.clock() - interval '1 hour'
    AND m.status IN ('completed', 'dead', 'cancelled')
GROUP BY m.job_type, m.status;
