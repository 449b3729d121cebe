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
        SELECT k.kind FROM unnest(ARRAY['pending', 'due', 'paused', 'waiting', 'blocked']) AS k(kind)
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
