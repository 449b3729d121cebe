-- Lock the open keys of a limit whose turn it is, in one queue and lane, and of their next jobs as many as have permits, until `_limit` are
-- `_picked`; without the keys of `_seen`, to which those are added that have nothing more for this call. `is_any`: whether the limit gave a
-- key to look at. What is taken is charged to the key's turn (`_ahead`: how far those of other limits were served) and to its rate at once; the
-- jobs are the caller's to write.
CREATE FUNCTION asyncjobs.take_turns(
    _queue text, _name text, _lane text, _limit integer, _ahead float8, _types text[], _suspects boolean, _versions jsonb, _is_cut boolean,
    INOUT _seen text[], INOUT _picked tid[], OUT is_any boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[]; _places tid[]; _turns tid[];
    _most integer := _limit - cardinality(_picked);
    _total integer; _each integer; _every float8; _burst integer; _weight float8;
    _now timestamptz;
    _found tid[];
BEGIN
    SELECT l.total, l.each, l.every, l.burst, l.weight INTO _total, _each, _every, _burst, _weight
    FROM asyncjobs.limits AS l WHERE l.kind = 'limit' AND l.name = _name;
    IF _total IS NOT NULL THEN
        _most := asyncjobs.limit_room('limit', _name, _most, _picked, _is_cut);
    END IF;
    SELECT o.keys, o.places, o.turns, o.ahead INTO _keys, _places, _turns, _ahead FROM asyncjobs.lock_turns(_queue, _name, _lane, _most, _ahead, _suspects, _seen) AS o;
    is_any := _keys IS NOT NULL;
    IF NOT is_any THEN
        RETURN;
    END IF;
    _now := asyncjobs.moment();
    WITH allowed AS MATERIALIZED (
        SELECT u.key, u.at, u.place, u.turn, _most / cardinality(_keys) + (u.at <= _most % cardinality(_keys))::integer AS quota,
            greatest(0, least(2147483646, asyncjobs.rate_permits(k, _every, _burst, _now), _each - CASE WHEN _each IS NOT NULL THEN (
                SELECT count(1) FROM (
                    SELECT FROM asyncjobs.jobs AS r
                    WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = u.key AND r.runner_id IS NOT NULL
                    ORDER BY r.limit_key, r.queue LIMIT _each) AS r) + (
                SELECT count(1) FROM asyncjobs.jobs AS p WHERE p.ctid = ANY (_picked) AND p.limit_key = u.key) END)) AS permits
        FROM unnest(_keys, _places, _turns) WITH ORDINALITY AS u(key, place, turn, at) JOIN asyncjobs.limit_keys AS k ON k.ctid = u.place),
    heads AS MATERIALIZED (  -- (one more tells that something is left)
        SELECT a.key, a.place, a.turn, a.permits, least(a.permits, a.quota) AS most, ARRAY(
            SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = a.key AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.status = 'pending' AND j.suspicion BETWEEN _suspects::integer AND _suspects::integer * 32767 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND j.ctid <> ALL (_picked)
            ORDER BY j.suspicion, j.priority, j.place LIMIT least(a.permits, a.quota) + 1 FOR UPDATE SKIP LOCKED) AS found FROM allowed AS a),
    counted AS MATERIALIZED (
        SELECT h.key, h.place, h.turn, h.found[:h.most] AS found, least(cardinality(h.found), h.most) AS taken,
            cardinality(h.found) <= h.most OR h.permits <= h.most AS is_over FROM heads AS h),
    served AS (
        UPDATE asyncjobs.limit_turns AS t SET rested = t.rested AND _ahead IS NULL, turned_at = _now,
            served = CASE WHEN t.rested THEN greatest(t.served, _ahead) ELSE t.served END
                + greatest(c.taken, (NOT _suspects)::integer) / coalesce(_weight, 1)
        FROM counted AS c WHERE t.ctid = c.turn),
    charged AS (
        UPDATE asyncjobs.limit_keys AS k
        SET tat = asyncjobs.rate_base(k.tat, _every, _burst, _now) + make_interval(secs => c.taken * _every)
        FROM counted AS c WHERE _every IS NOT NULL AND c.taken > 0 AND k.ctid = c.place)
    SELECT ARRAY(SELECT f.ctid FROM counted AS c CROSS JOIN unnest(c.found) AS f(ctid)),
        array_agg(c.key) FILTER (WHERE c.is_over) INTO _found, _keys FROM counted AS c;
    _picked := _picked || _found;
    IF _keys IS NOT NULL THEN
        _seen := _seen || _keys;
        PERFORM asyncjobs.note_touched(_keys, _queue, _lane);
    END IF;
END $$;
