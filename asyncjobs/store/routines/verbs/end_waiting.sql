-- End jobs that wait; their keys' locks are held. True when all were still waiting.
CREATE FUNCTION asyncjobs.end_waiting(_ids bigint[], _status text, _message text, _max_errors integer) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _gone bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.job_id IS NULL
        RETURNING s.id, s.queue, s.lane, s.type, s.version, s.payload, s.priority, s.max_attempts, s.timeout, s.scheduled_at,
            s.correlation_id, s.parent_job_id, s.created_by, s.dedup_key, s.serialization_key, s.on_dead, s.enqueue_token,
            s.requeued_from, s.trace_context, s.created_at),
    moved AS (
        INSERT INTO asyncjobs.jobs AS j (id, queue, lane, type, version, payload, priority, max_attempts, timeout, scheduled_at,
            correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, enqueue_token, requeued_from, trace_context,
            created_at, status)
        SELECT g.id, g.queue, g.lane, g.type, g.version, g.payload, g.priority, g.max_attempts, g.timeout, g.scheduled_at,
            g.correlation_id, g.parent_job_id, g.created_by, g.dedup_key, g.serialization_key, g.on_dead, g.enqueue_token,
            g.requeued_from, g.trace_context, g.created_at, 'waiting'
        FROM gone AS g
        ON CONFLICT (id) DO UPDATE SET updated_at = asyncjobs.clock()
        RETURNING j.id)
    SELECT array_agg(m.id) INTO _gone FROM moved AS m;
    PERFORM asyncjobs.write_end(_gone, _status, _message, _max_errors);
    RETURN coalesce(cardinality(_gone), 0) = cardinality(_ids);
END $$;
