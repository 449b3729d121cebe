-- Let the due jobs of these keys join their lines, in the order in which they were due: the head of an idle key becomes pending,
-- a job with others before it waits. What has expired in its line is ended (routines/expiry). The key's lock comes first and the rows
-- after it, in new statements. A lock that is not had at once is held by a stranger's transaction: error 55P03, and the caller tries the
-- keys one by one.
CREATE FUNCTION asyncjobs.promote_keyed(_keys text[], _batch integer, OUT promoted integer, OUT queues text[], OUT urgent_queues text[],
    OUT expired jsonb)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ids bigint[];
    _heads bigint[];
    _ended bigint[];
BEGIN
    PERFORM asyncjobs.lock_keys(_keys);
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.due_jobs AS j
        WHERE j.due_at <= asyncjobs.clock() AND j.status IN ('scheduled', 'failed') AND j.serialization_key = ANY (_keys)
          AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL)
        ORDER BY j.due_at, j.id LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    PERFORM asyncjobs.join_line(_ids, _keys);
    promoted := cardinality(_ids);
    _ended := ARRAY(
        SELECT j.id FROM asyncjobs.due_jobs AS j
        WHERE j.due_at <= asyncjobs.clock() AND j.start_before <= asyncjobs.clock() AND j.serialization_key = ANY (_keys)
          AND EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NULL)
        ORDER BY j.due_at LIMIT _batch);
    IF cardinality(_ended) > 0 THEN
        expired := asyncjobs.end_waiting(_ended, 'cancelled', 'expired', 0);
    END IF;
    SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(_keys) AS d;
    SELECT array_agg(j.queue), array_agg(DISTINCT j.queue) FILTER (WHERE j.priority < 100)
    INTO queues, urgent_queues FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending';
END $$;
