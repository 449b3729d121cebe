-- Make a job that ended one that is to be tried again, with all its attempts; its dead letters are dealt with. Its row is locked.
CREATE FUNCTION asyncjobs.start_over(_id bigint, _by text) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j SET attempts = 0, rescues = 0, losses = 0, suspicion = 0, completed_at = NULL, error_message = NULL,
        claim_token = NULL, progress = NULL, status = 'failed', requested_outcome = NULL, request_message = NULL, cancel_requested_at = NULL
    WHERE j.id = _id;
    UPDATE asyncjobs.dead_letter_jobs AS d SET acknowledged = true, acknowledged_by = _by, acknowledged_at = asyncjobs.clock(),
        requeued_as = _id, requeue_count = d.requeue_count + 1
    WHERE d.job_id = _id AND NOT d.acknowledged;
END $$;
