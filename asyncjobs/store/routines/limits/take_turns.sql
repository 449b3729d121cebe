-- Lock the keys of a limit whose turn it is, in one queue and lane, and of their next jobs as many as have permits, at most `_most` in all;
-- without the keys of `_seen`, to which those are added that have nothing more for this call. `picked` null: the limit gave no key to look at. What is
-- taken is charged to the key's turn (`_ahead`: how far those of other limits were served) and to its rate at once; the jobs are the caller's to write.
CREATE FUNCTION asyncjobs.take_turns(
    _queue text, _name text, _lane text, _most integer, _ahead float8, _types text[], _suspects boolean, _versions jsonb, INOUT _seen text[],
    OUT picked tid[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[];
    _quota integer;
    _total integer; _each integer; _every float8; _burst integer; _weight float8;
    _now timestamptz;
    _ended text[];
BEGIN
    SELECT l.total, l.each, l.every, l.burst, l.weight INTO _total, _each, _every, _burst, _weight
    FROM asyncjobs.limits AS l WHERE l.kind = 'limit' AND l.name = _name;
    SELECT o.keys, o.most, o.ahead INTO _keys, _most, _ahead
    FROM asyncjobs.lock_turns(_queue, _name, _lane, _most, _total IS NOT NULL, _ahead, _suspects, _seen) AS o;
    IF _keys IS NULL THEN
        RETURN;
    END IF;
    _quota := ceil(_most::float8 / cardinality(_keys));
    _now := asyncjobs.moment();
    WITH allowed AS MATERIALIZED (
        SELECT k.key, u.at, greatest(least(2147483646, asyncjobs.rate_permits(k, _every, _burst, _now), _each - (
            SELECT count(1) FROM asyncjobs.jobs AS r
            WHERE _each IS NOT NULL AND asyncjobs.limit_side(r.status) = 1 AND r.limit_key = k.key AND r.runner_id IS NOT NULL)), 0) AS permits
        FROM unnest(_keys) WITH ORDINALITY AS u(key, at) JOIN asyncjobs.limit_keys AS k ON k.key = ANY (ARRAY[u.key])),
    heads AS MATERIALIZED (  -- (one more tells that something is left)
        SELECT a.at, h.ctid, row_number() OVER (PARTITION BY a.at) <= least(a.permits, _quota) AS is_taken FROM allowed AS a CROSS JOIN LATERAL (
            SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = a.key AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.status = 'pending' AND j.suspicion BETWEEN _suspects::integer AND _suspects::integer * 32767 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.suspicion, j.priority, j.place LIMIT least(a.permits, _quota) + 1 FOR UPDATE SKIP LOCKED) AS h),
    chosen AS MATERIALIZED (SELECT h.at, h.ctid FROM heads AS h WHERE h.is_taken ORDER BY h.at LIMIT _most),
    counted AS MATERIALIZED (
        SELECT a.key, a.permits, (SELECT count(1)::integer FROM chosen AS h WHERE h.at = a.at) AS taken,
            EXISTS (SELECT FROM heads AS h WHERE h.at = a.at AND NOT h.is_taken) AS has_more FROM allowed AS a),
    served AS (
        UPDATE asyncjobs.limit_turns AS t SET rested = t.rested AND _ahead IS NULL,
            served = CASE WHEN t.rested THEN greatest(t.served, _ahead) ELSE t.served END
                + greatest(c.taken, (NOT _suspects)::integer) / coalesce(_weight, 1)
        FROM counted AS c WHERE t.key = ANY (ARRAY[c.key]) AND t.queue = _queue AND t.lane = _lane),
    charged AS (
        UPDATE asyncjobs.limit_keys AS k
        SET tat = asyncjobs.rate_base(k.tat, _every, _burst, _now) + make_interval(secs => c.taken * _every)
        FROM counted AS c WHERE _every IS NOT NULL AND c.taken > 0 AND k.key = ANY (ARRAY[c.key]))
    SELECT coalesce((SELECT array_agg(h.ctid) FROM chosen AS h), '{}'), array_agg(c.key) FILTER (WHERE c.taken < _quota OR NOT c.has_more),
        array_agg(c.key) FILTER (WHERE c.permits <= c.taken OR NOT c.has_more)
    INTO picked, _ended, _keys FROM counted AS c;
    _seen := _seen || _ended;
    IF _keys IS NOT NULL THEN
        PERFORM asyncjobs.note_touched(_keys, _queue, _lane);
    END IF;
END $$;
