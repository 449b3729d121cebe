-- `replace_job` for a job that has ended before it ever started, for its dead letter, and for the job that was made of that since.
CREATE FUNCTION asyncjobs.replace_ended_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamptz,
    _limit_key text) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _made bigint;
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, limit_key = _limit_key, run_at = _due_at, scheduled_at = _due_at,
        start_before = _due_at + (j.start_before - j.scheduled_at), updated_at = asyncjobs.moment()
    WHERE j.id = _id AND j.status IN ('dead', 'cancelled') AND j.attempts = 0 AND j.started_at IS NULL;
    IF FOUND THEN
        UPDATE asyncjobs.dead_letter_jobs AS d
        SET original_job = d.original_job || jsonb_build_object('payload', _payload::jsonb, 'version', _version, 'limit_key', _limit_key)
        WHERE d.job_id = _id;
        FOREACH _made IN ARRAY asyncjobs.requeued_of(ARRAY[_id]) LOOP
            PERFORM asyncjobs.replace_job(_made, _key, _payload, _version, least(_due_at, asyncjobs.clock()), _limit_key);
        END LOOP;
    END IF;
END $$;
