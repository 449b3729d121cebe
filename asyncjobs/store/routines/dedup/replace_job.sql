-- Give a job without a serialization key that has not started a new payload and time. One that has started stays as it is.
CREATE FUNCTION asyncjobs.replace_job(_id bigint, _payload text, _version integer, _due_at timestamptz) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, version = _version, run_at = _due_at, scheduled_at = _due_at, updated_at = _now,
        status = CASE WHEN _due_at > _now THEN 'scheduled'
                      WHEN j.status = 'paused' OR asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                      ELSE 'pending' END,
        place = CASE WHEN j.status = 'pending' THEN j.place ELSE nextval('asyncjobs.place_seq') END
    WHERE j.id = _id AND j.serialization_key IS NULL AND j.status IN ('scheduled', 'pending', 'paused')
      AND j.attempts = 0 AND j.started_at IS NULL;
END $$;
