-- Find keys that are closed though they should not be, at most `_most` of those behind `_after`, and leave requests for them: what a crash or an
-- operator's SQL left. `reached`: where to go on; null at the end. It reads the keys that have something waiting, step by step, and of each one job.
CREATE FUNCTION asyncjobs.sweep_limits(_after text, _most integer, OUT reached text, OUT requested integer) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _keys text[];
BEGIN
    WITH RECURSIVE waiting AS (
        (SELECT j.limit_key AS key, 1 AS number FROM asyncjobs.jobs AS j
         WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key > coalesce(_after, '') COLLATE "C" AND j.status = 'pending'
         ORDER BY j.limit_key LIMIT 1)
        UNION ALL
        SELECT n.key, w.number + 1 FROM waiting AS w CROSS JOIN LATERAL (
            SELECT j.limit_key AS key FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key > w.key AND j.status = 'pending'
            ORDER BY j.limit_key LIMIT 1) AS n
        WHERE w.number < _most)
    SELECT array_agg(w.key), CASE WHEN count(1) >= _most THEN max(w.key) END INTO _keys, reached FROM waiting AS w;
    INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed)
    SELECT DISTINCT j.limit_key, j.queue, coalesce(j.lane, ''), true FROM unnest(_keys) AS u(key) CROSS JOIN LATERAL (
        SELECT j.limit_key, j.queue, j.lane FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = u.key AND j.status = 'pending' ORDER BY j.queue LIMIT 1) AS j
    LEFT JOIN asyncjobs.limit_keys AS k ON k.key = u.key
    LEFT JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(u.key)
    LEFT JOIN asyncjobs.limit_turns AS t ON t.key = u.key AND t.queue = j.queue AND t.lane = coalesce(j.lane, '')
    WHERE t.key IS NULL OR t.state = 'idle'
       OR (t.state = 'closed' AND coalesce(asyncjobs.key_opens_at(k, l.every, l.burst, _now) <= _now, true))
       OR (t.state = 'full' AND coalesce(l.each > (
            SELECT count(1) FROM asyncjobs.jobs AS r
            WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = u.key AND r.runner_id IS NOT NULL), true))
       OR (l.is_full AND coalesce(asyncjobs.running_of(l.name, l.total) < l.total, true));
    GET DIAGNOSTICS requested = ROW_COUNT;
    UPDATE asyncjobs.limit_turns AS t SET has_suspects = false
    WHERE t.has_suspects AND NOT EXISTS (
        SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = t.queue
          AND coalesce(j.lane, '') = t.lane AND j.status = 'pending' AND j.suspicion > 0);
END $$;
