-- What attempts did, rolled up: a row per type, status and minute, later per hour, quarter of a day and day, with histograms of its durations.

-- `status` is what the attempt made of its job: completed, failed (it will be tried again), scheduled (snoozed), dead, cancelled. An
-- attempt that was interrupted and given back is none. In a histogram each number is a bucket, times 2^40, and how many are in it;
-- bucket n ends at 1.04^n microseconds. (As jsonb they took three times as long to add up: a page over 30 days reads 400,000 buckets.)
-- `minute` is when the span begins, in which the runner rolled the attempts up.
-- Full pages: 97.7 % of the updates of 100 rows that share a minute were HOT, at 70 % all, but rows are kept for months.
CREATE TABLE asyncjobs.job_metrics (
    job_type text NOT NULL,
    status text NOT NULL,
    minute timestamptz NOT NULL,
    span interval NOT NULL DEFAULT '1 minute',
    count bigint NOT NULL CHECK (count > 0),
    queue_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    queue_time bigint[] NOT NULL,
    run_time bigint[] NOT NULL,
    PRIMARY KEY (span, minute, job_type, status)
);

CREATE FUNCTION asyncjobs.add_histograms(bigint[], bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(b.packed ORDER BY b.packed), '{}')
    FROM (SELECT ((e.packed >> 40) << 40) + sum(e.packed & 1099511627775)::bigint AS packed
          FROM unnest($1 || $2) AS e(packed) GROUP BY e.packed >> 40) AS b
$$;

CREATE AGGREGATE asyncjobs.sum_histograms(bigint[]) (
    SFUNC = asyncjobs.add_histograms, STYPE = bigint[], INITCOND = '{}', COMBINEFUNC = asyncjobs.add_histograms, PARALLEL = SAFE);

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

-- A histogram of an object from bucket to count.
CREATE FUNCTION asyncjobs.pack_histogram(jsonb) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg((e.key::bigint << 40) + e.value::bigint ORDER BY e.key::bigint), '{}') FROM jsonb_each_text($1) AS e
$$;

-- Add what a runner counted, an array of objects, to the rows of this minute.
CREATE FUNCTION asyncjobs.record_metrics(_tallies jsonb) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.add_metrics(ARRAY(
        SELECT ROW(c.job_type, c.status, date_trunc('minute', asyncjobs.clock(), 'UTC'), interval '1 minute', c.count, c.queue_seconds,
            c.run_seconds, asyncjobs.pack_histogram(c.queue_time), asyncjobs.pack_histogram(c.run_time))::asyncjobs.job_metrics
        FROM jsonb_to_recordset(_tallies)
            AS c(job_type text, status text, count bigint, queue_seconds float8, run_seconds float8, queue_time jsonb, run_time jsonb)));
END $$;

-- Make one row of the rows of an hour's minutes, of a quarter of a day's hours, and of a day's quarters, the oldest first: one of each a
-- call. Rows that runners may still add to are never old enough. `_token` null: without a lease; else nothing is done when that term is over.
CREATE FUNCTION asyncjobs.fold_metrics(
    _duty text, _holder text, _token bigint,
    _minutes interval, _hours interval, _quarters interval, _days interval,  -- how long rows of each kind are kept
    OUT held boolean, OUT folded integer,   -- rows that went into others
    OUT deleted integer,
    OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    held := _token IS NULL OR asyncjobs.hold_lease(_duty, _holder, _token, '4 seconds');
    folded := 0; deleted := 0; more := false;
    IF NOT held THEN
        RETURN;
    END IF;
    folded := asyncjobs.fold_oldest('1 minute', '1 hour', _now - _minutes)
        + asyncjobs.fold_oldest('1 hour', '6 hours', _now - _hours)
        + asyncjobs.fold_oldest('6 hours', '1 day', _now - _quarters);
    DELETE FROM asyncjobs.job_metrics AS m WHERE m.span = '1 day' AND m.minute < _now - _days;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := folded > 0;
END $$;

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

-- What is not finished, by what is read of it: the partial indexes, and never the finished rows. `since` is when it was due, started
-- or, waiting or paused, made.
CREATE VIEW asyncjobs.live_jobs AS
SELECT 'pending' AS kind, j.queue, j.type, j.version, j.status, j.run_at AS since FROM asyncjobs.jobs AS j WHERE j.status = 'pending'
UNION ALL
SELECT 'due', j.queue, j.type, j.version, j.status, j.run_at FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed')
UNION ALL
SELECT 'paused', j.queue, j.type, j.version, j.status, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'paused'
UNION ALL
SELECT 'processing', j.queue, j.type, j.version, j.status, j.started_at FROM asyncjobs.jobs AS j
WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
UNION ALL
SELECT 'waiting', s.queue, s.type, s.version, 'waiting', s.created_at FROM asyncjobs.serialized_jobs AS s WHERE s.job_id IS NULL;

-- Whether a live runner would take a job like that.
CREATE FUNCTION asyncjobs.is_served(_queue text, _type text, _version integer) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL AND _type = ANY (r.types) AND _queue = ANY (r.queues)
        AND asyncjobs.can_run(r.versions, _type, _version)) $$;

-- The roll-up of kinds of which there are very many: counting 200,000 takes 100 ms, which no page and no monitor should. Kinds of which
-- there are few are not in here, they are counted when somebody asks.
CREATE TABLE asyncjobs.job_depths (
    kind text NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    count bigint NOT NULL,
    oldest_at timestamptz NOT NULL,
    counted_at timestamptz NOT NULL,
    took interval NOT NULL,  -- to count all of them
    PRIMARY KEY (kind, queue, type, version, status)
);

-- Count the kinds of which there are more than `_most`. Less often when it takes long: at most a twentieth of the time is spent on it.
CREATE FUNCTION asyncjobs.count_depths(_duty text, _holder text, _token bigint, _most integer) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _began timestamptz := clock_timestamp();
    _many text[];
BEGIN
    IF _token IS NOT NULL AND NOT asyncjobs.hold_lease(_duty, _holder, _token, '4 seconds') THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM asyncjobs.job_depths AS d WHERE _now BETWEEN d.counted_at AND d.counted_at + d.took * 20) THEN
        RETURN true;
    END IF;
    _many := ARRAY(
        SELECT k.kind FROM unnest(ARRAY['pending', 'due', 'paused', 'waiting']) AS k(kind)
        WHERE EXISTS (SELECT FROM asyncjobs.live_jobs AS l WHERE l.kind = k.kind OFFSET _most));
    DELETE FROM asyncjobs.job_depths AS d WHERE d.kind <> ALL (_many);
    IF _many = '{}' THEN
        RETURN true;
    END IF;
    INSERT INTO asyncjobs.job_depths AS d (kind, queue, type, version, status, count, oldest_at, counted_at, took)
    SELECT l.kind, l.queue, l.type, l.version, l.status, count(1), min(l.since), _now, clock_timestamp() - _began
    FROM asyncjobs.live_jobs AS l WHERE l.kind = ANY (_many) GROUP BY l.kind, l.queue, l.type, l.version, l.status
    ON CONFLICT (kind, queue, type, version, status) DO UPDATE SET
        count = excluded.count, oldest_at = excluded.oldest_at, counted_at = excluded.counted_at, took = excluded.took;
    DELETE FROM asyncjobs.job_depths AS d WHERE d.counted_at <> _now;
    RETURN true;
END $$;

-- What is not finished, by queue, type and status, for those who look often: of each kind at most `_most` jobs are counted. Kinds of which
-- there are more come from the roll-up, with `counted_at`; one that is not in it, or was not renewed when it should have been, is partial.
-- (Left to itself the planner reads the table from its beginning, past all that is finished, to find so many; PostgreSQL 14 gathers
-- the whole index into a bitmap first.)
CREATE FUNCTION asyncjobs.depths(_most integer)
RETURNS TABLE (queue text, type text, status text, count bigint, oldest_at timestamptz, unserved bigint, counted_at timestamptz,
    is_partial boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH counted AS MATERIALIZED (
        SELECT k.kind, l.queue, l.type, l.version, l.status, count(1) AS count, min(l.since) AS oldest_at,
            sum(count(1)) OVER (PARTITION BY k.kind) > _most AS is_partial
        FROM unnest('{pending,due,paused,processing,waiting}'::text[]) AS k(kind)
        CROSS JOIN LATERAL (
            SELECT j.queue, j.type, j.version, j.status, j.since FROM asyncjobs.live_jobs AS j WHERE j.kind = k.kind LIMIT _most + 1) AS l
        GROUP BY k.kind, l.queue, l.type, l.version, l.status),
    rolled_up AS MATERIALIZED (
        SELECT d.kind, d.queue, d.type, d.version, d.status, d.count, d.oldest_at, d.counted_at FROM asyncjobs.job_depths AS d
        WHERE asyncjobs.clock() BETWEEN d.counted_at AND d.counted_at + greatest(d.took * 40, interval '2 minutes')
            AND d.kind IN (SELECT c.kind FROM counted AS c WHERE c.is_partial))
    SELECT v.queue, v.type, v.status, sum(v.count)::bigint, asyncjobs.instant(min(v.oldest_at)),
        coalesce(sum(v.count) FILTER (WHERE NOT v.served), 0)::bigint, min(v.counted_at), bool_or(v.is_partial)
    FROM (
        SELECT u.queue, u.type, u.status, u.count, u.oldest_at, u.counted_at, u.is_partial,
            asyncjobs.is_served(u.queue, u.type, u.version) AS served
        FROM (
            SELECT c.queue, c.type, c.version, c.status, c.count, c.oldest_at, NULL AS counted_at, c.is_partial FROM counted AS c
            WHERE c.kind NOT IN (SELECT r.kind FROM rolled_up AS r)
            UNION ALL
            SELECT r.queue, r.type, r.version, r.status, r.count, r.oldest_at, r.counted_at, false FROM rolled_up AS r) AS u) AS v
    GROUP BY v.queue, v.type, v.status;
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
