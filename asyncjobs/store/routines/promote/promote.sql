-- Promote at most `_batch` jobs, those that are due for longest first; and end, instead, what has expired (routines/expiry). Rows that
-- others hold are left to them. A job with a key that is not the head of its key's line is not seen to here: it has to join the line,
-- or leave it, under the lock of its key, which may take long. `keys` are those keys, without the ones in `_blocked`, whose lock could not
-- be had a moment ago. Both conditions stand before the limits: else a batch full of the one kind would starve the other.
--
-- `_from` is where an earlier call got to: what was promoted lies before it, and stays in the index as dead entries while any session
-- holds an old snapshot. Null starts at the front, where rows are that committed after their time. `_aside` are left out, and where there
-- are `_only` all others are (runtime/set_aside.py).
CREATE FUNCTION asyncjobs.promote(
    _batch integer, _from timestamptz, _blocked text[], _aside bigint[] DEFAULT NULL, _only bigint[] DEFAULT NULL,
    OUT promoted integer,
    OUT queues text[],           -- of each job that became pending
    OUT urgent_queues text[],    -- of these, where one has a better priority than most
    OUT keys text[],
    OUT next_due_seconds float8, -- from now on; null when nothing is scheduled
    OUT skipped boolean,         -- something was due that others hold
    OUT reached_at timestamptz,  -- the next call's `_from`
    OUT scan_seconds float8,     -- the cost of finding what is due
    OUT expired jsonb,           -- ids and types of what was ended
    OUT opened text[])           -- where keys of limits were opened: any number of jobs may be claimed there
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _began timestamptz := clock_timestamp();
    _now timestamptz := asyncjobs.clock();
    _found integer;
    _ids bigint[];
    _ended bigint[];
    _heads text[];
BEGIN
    _from := coalesce(_from, '-infinity');
    SELECT array_agg(f.id ORDER BY f.due_at) FILTER (WHERE f.start_before IS NULL OR f.start_before > _now),
           array_agg(f.id) FILTER (WHERE f.start_before <= _now), count(*), CASE WHEN count(*) >= _batch THEN max(f.due_at) ELSE _now END
    INTO _ids, _ended, _found, reached_at FROM (
        SELECT j.id, j.start_before, j.due_at FROM asyncjobs.due_jobs AS j
        WHERE j.due_at >= _from AND j.due_at <= _now AND (_aside IS NULL OR j.id <> ALL (_aside)) AND (_only IS NULL OR j.id = ANY (_only))
          AND (j.serialization_key IS NULL
               OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL))
        ORDER BY j.due_at LIMIT _batch FOR UPDATE OF j SKIP LOCKED) AS f;
    keys := ARRAY(
        SELECT DISTINCT d.serialization_key FROM (
            SELECT j.serialization_key FROM asyncjobs.due_jobs AS j
            WHERE j.due_at >= _from AND j.due_at <= _now AND j.serialization_key IS NOT NULL
              AND (_blocked IS NULL OR j.serialization_key <> ALL (_blocked))
              AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)
            ORDER BY j.due_at LIMIT _batch) AS d);
    scan_seconds := extract(epoch FROM clock_timestamp() - _began);
    IF _ended IS NOT NULL THEN
        SELECT e.ended, e.queues INTO expired, _heads FROM asyncjobs.end_idle(_ended, 'cancelled', 'expired', 0) AS e;
    END IF;
    IF _ids IS NOT NULL THEN
        SELECT m.promoted, m.queues, m.urgent_queues INTO promoted, queues, urgent_queues FROM asyncjobs.make_pending(_ids) AS m;
    END IF;
    queues := queues || _heads;
    skipped := _found < _batch AND EXISTS (
        SELECT FROM asyncjobs.due_jobs AS j
        WHERE j.due_at >= _from AND j.due_at <= _now AND (_aside IS NULL OR j.id <> ALL (_aside)) AND (_only IS NULL OR j.id = ANY (_only))
          AND (j.serialization_key IS NULL
               OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)));
    SELECT extract(epoch FROM j.due_at - _now) INTO next_due_seconds FROM asyncjobs.due_jobs AS j
    WHERE j.due_at > _now AND isfinite(j.due_at) ORDER BY j.due_at LIMIT 1;
    SELECT f.queues, least(promote.next_due_seconds, f.next_seconds) INTO opened, next_due_seconds
    FROM asyncjobs.fold_limits(_batch) AS f;
END $$;
