-- `arrive`, for what ends jobs and does not answer with what became pending: the queues are notified.
CREATE FUNCTION asyncjobs.arrive_and_tell(_ids bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _pending bigint[] := asyncjobs.arrive(_ids);
BEGIN
    PERFORM asyncjobs.tell('q:' || q.queue)
    FROM (SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending)) AS q;
END $$;
