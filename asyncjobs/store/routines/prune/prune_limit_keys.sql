-- Delete keys of limits that have had nothing to do, at most `_batch`, and none of the last thousand: what comes back is made anew. It is the last that a
-- transaction does: it keeps the exclusive locks of their slots (routines/limits, rule 5).
CREATE FUNCTION asyncjobs.prune_limit_keys(_batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _keys text[];
    _count integer;
BEGIN
    SELECT array_agg(i.key) INTO _keys FROM (
        SELECT t.key FROM asyncjobs.limit_turns AS t WHERE t.state = 'idle' ORDER BY t.served DESC, t.key OFFSET 1000 LIMIT _batch) AS i;
    IF _keys IS NULL THEN
        RETURN 0;
    END IF;
    _keys := ARRAY(
        WITH slots AS MATERIALIZED (
            SELECT s.slot, pg_try_advisory_xact_lock(hashtext('asyncjobs.limit'), s.slot) AS is_ours
            FROM (SELECT DISTINCT hashtext(u.key) & 4095 AS slot FROM unnest(_keys) AS u(key)) AS s)
        SELECT DISTINCT u.key FROM unnest(_keys) AS u(key) JOIN slots AS s ON s.slot = hashtext(u.key) & 4095 WHERE s.is_ours);
    _keys := ARRAY(
        SELECT k.key FROM asyncjobs.limit_keys AS k
        WHERE k.key = ANY (_keys) AND k.tat <= _now AND (k.closed_until <= _now OR k.closed_until IS NULL) FOR UPDATE SKIP LOCKED);
    _keys := ARRAY(
        SELECT u.key FROM unnest(_keys) AS u(key)
        WHERE NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = u.key AND t.state <> 'idle')
          AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) IN (0, 1) AND j.limit_key = u.key
                          AND (j.status = 'pending' OR j.runner_id IS NOT NULL)));
    DELETE FROM asyncjobs.limit_turns AS t WHERE t.key = ANY (_keys);
    DELETE FROM asyncjobs.limit_keys AS k WHERE k.key = ANY (_keys);
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;
