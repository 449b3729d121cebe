-- Whether a runner has something to do now: what it runs; what it may claim (`_queues`: those it serves, with the only lanes of each whose
-- general slots are none, else null; `_types` as a claim names them); what is due; the next of a line without a head; what is left to
-- the folders; what has expired and is to be ended, also where it is held back. Neither what is for later or held back, nor what another
-- runner runs, nor what waits behind such. The rules: runtime/idle.py.
CREATE FUNCTION asyncjobs.has_work(_runner bigint, _queues jsonb, _types text[], _versions jsonb) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now CONSTANT timestamptz := asyncjobs.moment();  -- after the look's snapshot: a retry that is due at once may have come before that
    _open text[] := ARRAY(
        SELECT q.key FROM jsonb_object_keys(_queues) AS q(key)
        WHERE NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'all' OR (p.kind = 'queue' AND p.name = q.key)));
    _numbers integer[] := ARRAY(SELECT hashtext(o.queue) FROM unnest(_open) AS o(queue));
BEGIN
    RETURN EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.runner_id = _runner AND j.status = 'processing')
        OR EXISTS (SELECT FROM asyncjobs.arrivals) OR EXISTS (SELECT FROM asyncjobs.gates AS g WHERE g.releasing)
        OR EXISTS (
            SELECT FROM asyncjobs.jobs AS j
            WHERE j.status = 'pending' AND j.limit_key IS NULL AND hashtext(j.queue) = ANY (_numbers) AND j.queue = ANY (_open) AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND asyncjobs.is_for(_queues, j.queue, j.lane))
        OR EXISTS (
            SELECT FROM asyncjobs.limit_turns AS t JOIN asyncjobs.jobs AS j
                ON asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = t.queue AND coalesce(j.lane, '') = t.lane
            WHERE j.status = 'pending' AND t.queue = ANY (_open) AND t.state = 'open' AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND asyncjobs.is_for(_queues, j.queue, j.lane))
        OR EXISTS (SELECT FROM asyncjobs.limit_requests)
        OR EXISTS (
            SELECT FROM asyncjobs.jobs AS j
            WHERE j.status IN ('scheduled', 'failed') AND j.run_at <= _now AND j.queue = ANY (_open)
              AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version)
              AND asyncjobs.is_for(_queues, j.queue, j.lane) AND NOT asyncjobs.is_paused(j.type, j.serialization_key)
              AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h WHERE h.serialization_key = j.serialization_key
                              AND h.dispatched_at IS NOT NULL AND h.id <> j.id))
        OR EXISTS (
            SELECT FROM asyncjobs.due_jobs AS d JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[d.id])
            WHERE d.due_at <= _now AND d.start_before <= _now AND j.type = ANY (_types)
              AND _queues ? j.queue)
        OR EXISTS (
            WITH RECURSIVE keys(key) AS (
                (SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s ORDER BY s.serialization_key LIMIT 1)
                UNION ALL
                SELECT n.key FROM keys AS k CROSS JOIN LATERAL (
                    SELECT s.serialization_key AS key FROM asyncjobs.serialized_jobs AS s
                    WHERE s.serialization_key > k.key ORDER BY s.serialization_key LIMIT 1) AS n)
            SELECT FROM keys AS k CROSS JOIN LATERAL (
                SELECT s.id FROM asyncjobs.serialized_jobs AS s
                WHERE s.serialization_key = k.key AND s.place IS NOT NULL ORDER BY s.place LIMIT 1) AS f
            JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[f.id])
            WHERE j.status || '' = 'waiting' AND j.queue = ANY (_open) AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND asyncjobs.is_for(_queues, j.queue, j.lane)
              AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = k.key AND d.dispatched_at IS NOT NULL)
              AND NOT asyncjobs.is_paused(j.type, j.serialization_key));
END $$;
