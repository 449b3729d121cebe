-- Dispatch the head of every one of these keys that has none dispatched. Callers hold the keys' locks, or have just deleted the
-- dispatched row in this transaction. Idle keys are filtered before any row is locked: otherwise this deadlocks with acks. A head whose
-- row in `jobs` does not wait is dispatched as it is, and holds its key: it follows in a run that a runner has (finish/_chapter), or an
-- operator's SQL wrote to it. One that was given back while this waited for its place waits by now: that is looked at once more, under the
-- lock of its place, which whoever gives back has to have.
--
-- `_after` are the places of the rows just deleted: jobs that wait in a key's line have later ones than its head, since places are drawn
-- under the key's lock. Without it the scan walks over all rows of the line that were deleted since the last vacuum: it cannot mark
-- them in the index for the next scan, since this statement itself writes to the page while the scan is open. A job of one key took
-- 1.04 million instructions of the server instead of 0.92, as the mean of the first 250, and more with each that followed.
-- Near places are tried first: a scan reads all entries of the line that its page has, wanted or not (100 keys, 50 jobs a call: 407 to
-- 387 thousand instructions a job).
--
-- Without bitmaps and sorts: a plan made while the table was empty collects a key's whole line for its first job, at every dispatch.
CREATE FUNCTION asyncjobs.dispatch_keys(_keys text[], _after bigint[] DEFAULT NULL) RETURNS TABLE (id bigint, serialization_key text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _any_limits boolean := EXISTS (SELECT FROM asyncjobs.limits);
    _now timestamptz := asyncjobs.moment();  -- it may be a caller's commit
    _all_waited boolean;
BEGIN
    FOR id, serialization_key, _all_waited IN
    WITH idle AS MATERIALIZED (
        SELECT k.key, k.after FROM (
            SELECT u.key, coalesce(max(u.after), 0) AS after FROM unnest(_keys, _after) AS u(key, after)
            GROUP BY u.key ORDER BY u.key COLLATE "C") AS k
        WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = ANY (ARRAY[k.key]) AND d.dispatched_at IS NOT NULL)
          AND NOT (_any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = k.key))),
    head AS MATERIALIZED (
        SELECT coalesce(
            (SELECT s.id FROM asyncjobs.serialized_jobs AS s
             WHERE s.serialization_key = idle.key AND s.dispatched_at IS NULL AND s.place > idle.after AND s.place < idle.after + 1000
             ORDER BY s.place LIMIT 1 FOR UPDATE),
            (SELECT s.id FROM asyncjobs.serialized_jobs AS s
             WHERE s.serialization_key = idle.key AND s.dispatched_at IS NULL AND s.place > idle.after
             ORDER BY s.place LIMIT 1 FOR UPDATE)) AS id FROM idle),
    dispatched AS (
        UPDATE asyncjobs.serialized_jobs AS s SET dispatched_at = _now FROM head WHERE s.id = ANY (ARRAY[head.id]) RETURNING s.id, s.serialization_key),
    made AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN _any_paused AND asyncjobs.is_paused(j.type, NULL) THEN 'paused' ELSE 'pending' END,
            place = nextval('asyncjobs.place_seq'), run_at = _now, updated_at = _now
        FROM dispatched AS d WHERE j.id = ANY (ARRAY[d.id]) AND j.status || '' = 'waiting' RETURNING j.id)
    SELECT d.id, d.serialization_key, (SELECT count(1) FROM made) = (SELECT count(1) FROM dispatched) FROM dispatched AS d
    LOOP
        RETURN NEXT;
    END LOOP;
    IF FOUND AND _any_limits THEN
        PERFORM asyncjobs.request_opening(ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key = ANY (_keys) AND s.dispatched_at = _now), false);
    END IF;
    IF NOT _all_waited THEN
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN _any_paused AND asyncjobs.is_paused(j.type, NULL) THEN 'paused' ELSE 'pending' END,
            place = nextval('asyncjobs.place_seq'), run_at = _now, updated_at = _now
        FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = ANY (_keys) AND s.dispatched_at IS NOT NULL AND j.id = ANY (ARRAY[s.id]) AND j.status || '' = 'waiting';
    END IF;
END $$;
