-- Open keys, under the shared locks of their slots: those of which a permit was freed (`_freed`), where they are as one of `_states` says, and,
-- queue and lane beside them, those to which a job was added, where they are idle. What is not there yet is made. Returns the queues in which something was opened.
CREATE FUNCTION asyncjobs.open_turns(_freed text[], _keys text[], _queues text[], _lanes text[], _states text[]) RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _names text[];
    _opened text[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('asyncjobs.limit'), s.slot) FROM unnest(asyncjobs.limit_slots(_freed || _keys)) AS s(slot);
    _names := ARRAY(SELECT l.name FROM asyncjobs.limits AS l
        WHERE l.kind = 'limit' AND l.name = ANY (ARRAY(SELECT asyncjobs.limit_name(u.key) FROM unnest(_freed) AS u(key))) AND l.is_full
        FOR UPDATE SKIP LOCKED);
    IF cardinality(_names) > 0 THEN
        UPDATE asyncjobs.limits AS l SET is_full = false, opened_at = asyncjobs.moment() WHERE l.kind = 'limit' AND l.name = ANY (_names);
        SELECT array_agg(DISTINCT q.queue) INTO _opened
        FROM (SELECT DISTINCT u.queue FROM asyncjobs.runners AS r CROSS JOIN unnest(r.queues) AS u(queue)) AS q
        WHERE EXISTS (SELECT FROM unnest(_names) AS n(name) JOIN asyncjobs.limit_turns AS t ON t.name = n.name
            WHERE t.queue = q.queue AND t.state = 'open');
    END IF;
    IF EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = ANY (_freed || _keys) AND t.state <> 'open') THEN
        WITH opened AS (
            UPDATE asyncjobs.limit_turns AS t SET state = 'open', opens_at = NULL, turned_at = asyncjobs.moment(), rested = t.rested OR t.state = 'idle'
            FROM (SELECT c.key, c.queue, c.lane FROM asyncjobs.limit_turns AS c
                  WHERE c.key = ANY (_freed || _keys) AND (
                      (c.key = ANY (_freed) AND c.state = ANY (_states)) OR (c.state = 'idle' AND EXISTS (
                          SELECT FROM unnest(_keys, _queues, _lanes) AS a(key, queue, lane)
                          WHERE a.key = c.key AND a.queue = c.queue AND a.lane = c.lane)))
                  ORDER BY c.key, c.queue, c.lane FOR UPDATE SKIP LOCKED) AS c
            WHERE t.key = c.key AND t.queue = c.queue AND t.lane = c.lane RETURNING t.queue)
        SELECT _opened || array_agg(DISTINCT o.queue) INTO _opened FROM opened AS o;
    END IF;
    IF cardinality(_keys) > 0 THEN
        _opened := _opened || asyncjobs.make_turns(_keys, _queues, _lanes);
    END IF;
    RETURN _opened;
END $$;
