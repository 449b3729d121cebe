-- Of which priorities the first `_limit` jobs of a scan by age are, how many of each, and when (at) the first of these became ready, with what its
-- priority is worth: in the order of that. Without `_spent`. The priorities of a queue are found step by step in the index, a probe each: 100 from
-- the front, and where there are more 100 from one that is drawn, so that each has its turn. Nothing is locked. (`claim` has the parameters.)
CREATE FUNCTION asyncjobs.aged_levels(
    _queue text, _lane text, _ageing bigint, _limit integer, _types text[], _versions jsonb, _spent integer[], _picked tid[])
RETURNS TABLE (priority integer, count integer, at timestamptz) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE levels AS (
        (SELECT j.priority::integer AS priority, 1 AS number, j.priority::integer AS behind FROM asyncjobs.jobs AS j
         WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0
         ORDER BY j.priority, j.place LIMIT 1)
        UNION ALL
        SELECT n.priority, l.number + 1, n.priority + CASE l.number WHEN 99 THEN floor(random() * ((
                SELECT m.priority FROM asyncjobs.jobs AS m
                WHERE hashtext(m.queue) = hashtext(_queue) AND m.queue = _queue AND m.status = 'pending' AND m.limit_key IS NULL AND m.suspicion = 0
                ORDER BY m.priority DESC, m.place DESC LIMIT 1) - n.priority))::integer ELSE 0 END
        FROM levels AS l CROSS JOIN LATERAL (
            SELECT j.priority::integer AS priority FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0 AND j.priority > l.behind
            ORDER BY j.priority, j.place LIMIT 1) AS n
        WHERE l.number < 200),
    waiting AS (
        SELECT l.priority, w.run_at + l.priority * _ageing * interval '1 us' AS at FROM levels AS l
        CROSS JOIN LATERAL unnest(CASE WHEN _lane IS NULL THEN ARRAY(
            SELECT j.run_at FROM asyncjobs.jobs AS j
            WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0 AND j.priority = l.priority
              AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version) AND j.ctid <> ALL (_picked)
            ORDER BY j.place LIMIT _limit)
        ELSE ARRAY(
            SELECT j.run_at FROM asyncjobs.jobs AS j
            WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NULL AND j.queue = _queue AND coalesce(j.lane, '') = _lane
              AND j.lane IS NOT NULL AND j.status = 'pending' AND j.suspicion = 0
              AND j.priority = l.priority AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version) AND j.ctid <> ALL (_picked)
            ORDER BY j.limit_key, j.place LIMIT _limit)
        END) AS w(run_at)
        WHERE l.priority <> ALL (_spent)
        ORDER BY at, l.priority LIMIT _limit)
    SELECT w.priority, count(1)::integer, min(w.at) FROM waiting AS w GROUP BY w.priority ORDER BY min(w.at), w.priority;
END $$;
