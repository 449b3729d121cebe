-- Let the due jobs of these keys join their lines, in the order in which they were due: the head of an idle key becomes pending,
-- whoever has others before it waits. The key's lock comes first and the rows after it, in new statements. A lock that is not had
-- at once is held by a stranger's transaction: error 55P03, and the caller tries the keys one by one.
CREATE FUNCTION asyncjobs.promote_keyed(_keys text[], _batch integer, OUT promoted integer, OUT queues text[], OUT urgent_queues text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ids bigint[];
    _heads bigint[];
BEGIN
    PERFORM asyncjobs.lock_keys(_keys);
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.status IN ('scheduled', 'failed') AND j.run_at <= asyncjobs.clock() AND j.serialization_key = ANY (_keys)
          AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)
        ORDER BY j.run_at, j.id LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    PERFORM asyncjobs.join_line(_ids, _keys);
    promoted := cardinality(_ids);
    SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(_keys) AS d;
    SELECT array_agg(DISTINCT j.queue), array_agg(DISTINCT j.queue) FILTER (WHERE j.priority < 100)
    INTO queues, urgent_queues FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending';
END $$;
