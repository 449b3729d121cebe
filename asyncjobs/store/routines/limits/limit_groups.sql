-- The limits that have open keys in a queue, and in one lane of it or (null) in any, each with how far its next key was served; without those of
-- `_names`, and keys of `_seen`; `_suspects`: only keys that have such. Found step by step in the index: what is throttled is not read.
CREATE FUNCTION asyncjobs.limit_groups(_queue text, _lane text, _names text[], _seen text[], _suspects boolean DEFAULT false)
RETURNS TABLE (name text, lane text, served float8) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE groups AS (
        (SELECT t.name, t.lane FROM asyncjobs.limit_turns AS t
         WHERE t.queue = _queue AND t.state = 'open' AND t.name > '' ORDER BY t.name, t.lane LIMIT 1)
        UNION ALL
        SELECT n.name, n.lane FROM groups AS g CROSS JOIN LATERAL (
            SELECT t.name, t.lane FROM asyncjobs.limit_turns AS t
            WHERE t.queue = _queue AND t.state = 'open' AND (t.name, t.lane) > (g.name, g.lane) ORDER BY t.name, t.lane LIMIT 1) AS n)
    SELECT g.name, g.lane, f.served FROM groups AS g CROSS JOIN LATERAL (
        SELECT t.served FROM asyncjobs.limit_turns AS t
        WHERE t.queue = _queue AND t.name = g.name AND t.lane = g.lane AND t.state = 'open' AND t.key <> ALL (_seen)
          AND (NOT _suspects OR t.has_suspects)
        ORDER BY t.served LIMIT 1) AS f
    WHERE (_lane IS NULL OR g.lane = _lane) AND g.name <> ALL (_names)
      AND NOT EXISTS (SELECT FROM asyncjobs.limits AS l WHERE l.kind = 'limit' AND l.name = g.name AND l.is_full);
END $$;
