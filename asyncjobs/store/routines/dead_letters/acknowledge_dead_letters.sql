-- An operator has seen these dead letters. They are kept for a while, and no longer listed as unacknowledged.
CREATE FUNCTION asyncjobs.acknowledge_dead_letters(_ids bigint[], _by text)
RETURNS TABLE (dead_letter_id bigint, job_id bigint, is_new boolean, acknowledged_by text, acknowledged_at timestamptz) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _locked bigint[];
    _new bigint[];
BEGIN
    _locked := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_ids) ORDER BY d.id FOR UPDATE);
    WITH seen AS (
        UPDATE asyncjobs.dead_letter_jobs AS d
        SET acknowledged = true, acknowledged_by = _by, acknowledged_at = asyncjobs.clock()
        WHERE d.id = ANY (_locked) AND NOT d.acknowledged RETURNING d.id)
    SELECT coalesce(array_agg(s.id), '{}') INTO _new FROM seen AS s;
    RETURN QUERY
    SELECT d.id, d.job_id, d.id = ANY (_new), d.acknowledged_by, d.acknowledged_at
    FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_locked) ORDER BY d.id;
END $$;
