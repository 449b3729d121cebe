-- The last place that anything pending, or waiting in a line, has.
CREATE FUNCTION asyncjobs.last_place() RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN greatest(
        (SELECT max(j.place) FROM asyncjobs.jobs AS j
         WHERE j.status = 'pending' AND j.limit_key IS NOT NULL AND j.place < 4611686018427387904),
        (SELECT max(s.place) FROM asyncjobs.serialized_jobs AS s WHERE s.place < 4611686018427387904),
        (WITH RECURSIVE groups AS (
            (SELECT hashtext(j.queue) AS queue, j.suspicion, j.priority FROM asyncjobs.jobs AS j
             WHERE j.status = 'pending' AND j.limit_key IS NULL ORDER BY hashtext(j.queue), j.suspicion, j.priority LIMIT 1)
            UNION ALL
            SELECT n.queue, n.suspicion, n.priority FROM groups AS g CROSS JOIN LATERAL (
                SELECT hashtext(j.queue) AS queue, j.suspicion, j.priority FROM asyncjobs.jobs AS j
                WHERE j.status = 'pending' AND j.limit_key IS NULL AND (hashtext(j.queue), j.suspicion, j.priority) > (g.queue, g.suspicion, g.priority)
                ORDER BY hashtext(j.queue), j.suspicion, j.priority LIMIT 1) AS n)
        SELECT max(l.place) FROM groups AS g CROSS JOIN LATERAL (
            SELECT j.place FROM asyncjobs.jobs AS j
            WHERE j.status = 'pending' AND j.limit_key IS NULL AND hashtext(j.queue) = g.queue AND j.suspicion = g.suspicion AND j.priority = g.priority
              AND j.place < 4611686018427387904
            ORDER BY j.place DESC LIMIT 1) AS l));
END $$;
