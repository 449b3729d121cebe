-- Put a job that has its row in `jobs` at the end of its key's line, as waiting. The key's lock is held.
CREATE FUNCTION asyncjobs.join_line(_id bigint) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.check_places(ARRAY(SELECT j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = _id));
    INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key, queue, lane, type, version, payload, priority, max_attempts,
        timeout, scheduled_at, correlation_id, parent_job_id, created_by, dedup_key, on_dead, enqueue_token, requeued_from,
        trace_context, created_at)
    SELECT j.id, nextval('asyncjobs.place_seq'), j.serialization_key, j.queue, j.lane, j.type, j.version, j.payload, j.priority,
        j.max_attempts, j.timeout, j.scheduled_at, j.correlation_id, j.parent_job_id, j.created_by, j.dedup_key, j.on_dead,
        j.enqueue_token, j.requeued_from, j.trace_context, j.created_at
    FROM asyncjobs.jobs AS j WHERE j.id = _id;
    UPDATE asyncjobs.jobs AS j SET status = 'waiting', run_at = asyncjobs.clock(), updated_at = asyncjobs.clock() WHERE j.id = _id;
END $$;
