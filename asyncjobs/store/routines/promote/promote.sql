-- Promote at most `_batch` jobs, those that are due for longest first; rows that others hold are left to them. A job with a key
-- that is not the head of its key's line is not promoted here: it has to join the line, under the lock of its key, which may take
-- long. `keys` are those keys, without the ones in `_blocked`, whose lock could not be had a moment ago. Both conditions stand
-- before the limits: else a batch full of the one kind would starve the other.
--
-- `_from` is where an earlier call got to: what was promoted lies before it, and stays in the index as dead entries while any session
-- holds an old snapshot. Null starts at the front, where rows are that committed after their time.
CREATE FUNCTION asyncjobs.promote(
    _batch integer, _from timestamptz, _blocked text[],
    OUT promoted integer,
    OUT queues text[],           -- where jobs became pending
    OUT urgent_queues text[],    -- of these, where one has a better priority than most
    OUT keys text[],
    OUT next_due_seconds float8, -- from now on; null when nothing is scheduled
    OUT skipped boolean,         -- something was due that others hold
    OUT reached_at timestamptz,  -- the next call's `_from`
    OUT scan_seconds float8)     -- the cost of finding what is due
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _began timestamptz := clock_timestamp();
    _now timestamptz := asyncjobs.clock();
    _any_paused boolean;
    _ids bigint[];
BEGIN
    _from := coalesce(_from, '-infinity');
    reached_at := _now;
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.status IN ('scheduled', 'failed') AND j.run_at >= _from AND j.run_at <= _now
          AND (j.serialization_key IS NULL
               OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL))
        ORDER BY j.run_at LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    keys := ARRAY(
        SELECT DISTINCT d.serialization_key FROM (
            SELECT j.serialization_key FROM asyncjobs.jobs AS j
            WHERE j.status IN ('scheduled', 'failed') AND j.run_at >= _from AND j.run_at <= _now AND j.serialization_key IS NOT NULL
              AND (_blocked IS NULL OR j.serialization_key <> ALL (_blocked))
              AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)
            ORDER BY j.run_at LIMIT _batch) AS d);
    scan_seconds := extract(epoch FROM clock_timestamp() - _began);
    IF cardinality(_ids) > 0 THEN
        _any_paused := EXISTS (SELECT FROM asyncjobs.pauses);  -- under the locks of the rows
        WITH due AS (
            UPDATE asyncjobs.jobs AS j
            SET status = CASE WHEN _any_paused AND asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused'
                              ELSE 'pending' END,
                place = placed.place, updated_at = _now
            FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
                  FROM (SELECT u.id FROM unnest(_ids) WITH ORDINALITY AS u(id, ordinal) ORDER BY u.ordinal) AS o) AS placed
            WHERE j.id = ANY (ARRAY[placed.id])
            RETURNING j.queue, j.priority, j.status, j.run_at)
        SELECT count(*), array_agg(DISTINCT d.queue) FILTER (WHERE d.status = 'pending'),
               array_agg(DISTINCT d.queue) FILTER (WHERE d.status = 'pending' AND d.priority < 100),
               CASE WHEN count(*) >= _batch THEN max(d.run_at) ELSE _now END
        INTO promoted, queues, urgent_queues, reached_at FROM due AS d;
    END IF;
    skipped := coalesce(promoted, 0) < _batch AND EXISTS (
        SELECT FROM asyncjobs.jobs AS j
        WHERE j.status IN ('scheduled', 'failed') AND j.run_at >= _from AND j.run_at <= _now
          AND (j.serialization_key IS NULL
               OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)));
    SELECT extract(epoch FROM j.run_at - _now) INTO next_due_seconds FROM asyncjobs.jobs AS j
    WHERE j.status IN ('scheduled', 'failed') AND j.run_at > _now AND isfinite(j.run_at) ORDER BY j.run_at LIMIT 1;
END $$;
