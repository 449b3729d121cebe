-- The same for a job that has ended before it ever started, and for its dead letter.
CREATE FUNCTION asyncjobs.replace_ended_job(_id bigint, _payload text, _version integer, _due_at timestamptz) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, run_at = _due_at, scheduled_at = _due_at, updated_at = asyncjobs.moment()
    WHERE j.id = _id AND j.status IN ('dead', 'cancelled') AND j.attempts = 0 AND j.started_at IS NULL;
    IF FOUND THEN
        UPDATE asyncjobs.dead_letter_jobs AS d
        SET original_job = d.original_job || jsonb_build_object('payload', _payload::jsonb, 'version', _version)
        WHERE d.job_id = _id AND d.requeued_as IS NULL;
    END IF;
END $$;
