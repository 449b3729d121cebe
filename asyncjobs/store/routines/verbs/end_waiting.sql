-- End jobs that wait; their keys' locks are held. The row of the line comes before the job's: a dispatch has that first, too. Returns
-- ids and types of those that were still waiting; null when none was. Where dependents of theirs became pending, the queues are notified.
CREATE FUNCTION asyncjobs.end_waiting(_ids bigint[], _status text, _message text, _max_errors integer) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _in_line bigint[] := ARRAY(
        SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.dispatched_at IS NULL
        ORDER BY s.serialization_key COLLATE "C", s.place FOR UPDATE);
    _waiting bigint[];
    _ended jsonb;
    _queues text[];
BEGIN
    _waiting := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND (j.status = 'waiting' OR (j.id = ANY (_in_line) AND j.status IN ('paused', 'scheduled')))
        ORDER BY j.id FOR UPDATE);
    DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_waiting);
    SELECT e.ended, e.queues INTO _ended, _queues FROM asyncjobs.end_idle(_waiting, _status, _message, _max_errors) AS e;
    IF _queues IS NOT NULL THEN
        PERFORM asyncjobs.tell('f:' || q.queue) FROM (SELECT DISTINCT u.queue FROM unnest(_queues) AS u(queue)) AS q;
    END IF;
    RETURN _ended;
END $$;
