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
    _limit asyncjobs.limits;
    _now timestamptz;
    _ended text[];
BEGIN
    _most := asyncjobs.limit_room('limit', _name, _most);
    IF coalesce(_most, 0) > 0 THEN
        SELECT array_agg(p.key) INTO _keys FROM (
            SELECT t.key FROM asyncjobs.limit_turns AS t JOIN asyncjobs.limit_keys AS k ON k.key = t.key
            WHERE t.queue = _queue AND t.name = _name AND t.lane = _lane AND t.state = 'open' AND t.key <> ALL (_seen)
              AND (NOT _suspects OR t.has_suspects)
            ORDER BY t.served LIMIT _most FOR UPDATE SKIP LOCKED) AS p;
    END IF;
    IF _keys IS NULL THEN
        RETURN;
    END IF;
    _ahead := least(_ahead, asyncjobs.least_served(_queue, _name, _lane, _keys));  -- a key that had nothing to do goes on from there
    _quota := ceil(_most::float8 / cardinality(_keys));
    _now := asyncjobs.moment();
    SELECT * INTO _limit FROM asyncjobs.limits AS l WHERE l.kind = 'limit' AND l.name = _name;
    WITH allowed AS MATERIALIZED (
        SELECT k.key, u.at, asyncjobs.permits(k, _limit, _now) AS permits
        FROM unnest(_keys) WITH ORDINALITY AS u(key, at) JOIN asyncjobs.limit_keys AS k ON k.key = ANY (ARRAY[u.key])),
    heads AS MATERIALIZED (
        SELECT a.key, a.at, h.ctid FROM allowed AS a CROSS JOIN LATERAL (
            SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = a.key AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.status = 'pending' AND j.suspicion BETWEEN _suspects::integer AND _suspects::integer * 32767 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.suspicion, j.priority, j.place LIMIT least(a.permits, _quota) FOR UPDATE SKIP LOCKED) AS h
        LIMIT _most),
    counted AS MATERIALIZED (
        SELECT a.key, a.permits, (SELECT count(1)::integer FROM heads AS h WHERE h.at = a.at) AS taken FROM allowed AS a),
    served AS (
        UPDATE asyncjobs.limit_turns AS t SET rested = t.rested AND _ahead IS NULL,
            served = CASE WHEN t.rested THEN greatest(t.served, _ahead) ELSE t.served END + greatest(c.taken, (NOT _suspects)::integer) / coalesce(_limit.weight, 1),
            has_suspects = t.has_suspects AND (NOT _suspects OR EXISTS (
                SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = _queue
                  AND coalesce(j.lane, '') = _lane AND j.status = 'pending' AND j.suspicion > 0))
        FROM counted AS c WHERE t.key = ANY (ARRAY[c.key]) AND t.queue = _queue AND t.lane = _lane),
    charged AS (
        UPDATE asyncjobs.limit_keys AS k
        SET tat = asyncjobs.rate_base(k.tat, _limit.every, _limit.burst, _now) + make_interval(secs => c.taken * _limit.every)
        FROM counted AS c WHERE _limit.every IS NOT NULL AND c.taken > 0 AND k.key = ANY (ARRAY[c.key]))
    SELECT coalesce((SELECT array_agg(h.ctid) FROM heads AS h), '{}'), array_agg(c.key) FILTER (WHERE c.taken < _quota),
        array_agg(c.key) FILTER (WHERE c.taken >= c.permits OR c.taken < _quota)
    INTO picked, _ended, _keys FROM counted AS c;
    _seen := _seen || _ended;
    IF _keys IS NOT NULL THEN
        PERFORM asyncjobs.note_touched(_keys, _queue, _lane);
    END IF;
END $$;
