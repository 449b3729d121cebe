-- Make the rows of keys that are new; returns their queues. Only one transaction at a time makes those of one slot: a row that another one has
-- made, and not committed, is not waited for; what cannot be made now is left as a request.
CREATE FUNCTION asyncjobs.make_turns(_keys text[], _queues text[], _lanes text[]) RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _made text[];
    _ours integer[];
BEGIN
    SELECT array_agg(n.key), array_agg(n.queue), array_agg(n.lane) INTO _keys, _queues, _lanes
    FROM (SELECT DISTINCT u.key, u.queue, u.lane FROM unnest(_keys, _queues, _lanes) AS u(key, queue, lane)) AS n
    WHERE NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = n.key AND t.queue = n.queue AND t.lane = n.lane);
    IF _keys IS NULL THEN
        RETURN NULL;
    END IF;
    _ours := ARRAY(
        WITH slots AS MATERIALIZED (
            SELECT s.slot, pg_try_advisory_xact_lock(hashtext('asyncjobs.limit_made'), s.slot) AS is_ours
            FROM (SELECT DISTINCT hashtext(k.key) & 4095 AS slot FROM unnest(_keys) AS k(key)) AS s)
        SELECT s.slot FROM slots AS s WHERE s.is_ours);
    INSERT INTO asyncjobs.limit_keys (key)
    SELECT DISTINCT k.key FROM unnest(_keys) AS k(key) WHERE hashtext(k.key) & 4095 = ANY (_ours) ON CONFLICT (key) DO NOTHING;
    WITH made AS (
        INSERT INTO asyncjobs.limit_turns AS t (key, queue, lane, name)
        SELECT n.key, n.queue, n.lane, asyncjobs.limit_name(n.key) FROM unnest(_keys, _queues, _lanes) AS n(key, queue, lane)
        WHERE hashtext(n.key) & 4095 = ANY (_ours) ON CONFLICT (key, queue, lane) DO NOTHING RETURNING t.queue)
    SELECT array_agg(DISTINCT m.queue) INTO _made FROM made AS m;
    INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed)
    SELECT n.key, n.queue, n.lane, false FROM unnest(_keys, _queues, _lanes) AS n(key, queue, lane)
    WHERE hashtext(n.key) & 4095 <> ALL (_ours);
    RETURN _made;
END $$;
