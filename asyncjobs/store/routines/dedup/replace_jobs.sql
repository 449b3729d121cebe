-- on_duplicate="replace" for the rows named by `_which`. In a caller's transaction jobs with a key are replaced at its commit: a row of a
-- line that stayed locked until then would hold up the ack of the job before it. What else is to be replaced is locked here, with
-- `_keys`. Error AJ001 if one of these jobs has ended since its dedup key was looked at: then nothing stands in the way of a new job.
CREATE FUNCTION asyncjobs.replace_jobs(
    _ids bigint[], _rows asyncjobs.new_job[], _which integer[], _own boolean, _keys text[], _now timestamptz) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _here integer[] := ARRAY(SELECT w.at FROM unnest(_which) AS w(at) WHERE _own OR (_rows[w.at]).serialization_key IS NULL);
    _row record;
BEGIN
    PERFORM asyncjobs.lock_replaced(ARRAY(SELECT _ids[w.at] FROM unnest(_here) AS w(at)), _keys);
    IF EXISTS (
        SELECT FROM unnest(_here) AS w(at) WHERE NOT EXISTS (
            SELECT FROM asyncjobs.dedup_keys AS d
            WHERE d.type = ANY (ARRAY[(_rows[w.at]).type]) AND d.dedup_key = ANY (ARRAY[(_rows[w.at]).dedup_key]) AND d.job_id = _ids[w.at]
              AND (d.live OR d.expires_at > _now))) THEN
        RAISE EXCEPTION 'a job that was to be replaced has ended' USING ERRCODE = 'AJ001';
    END IF;
    FOR _row IN
        SELECT r.id, CASE WHEN r.on_duplicate = 'replace' THEN r.payload END AS payload,
            coalesce(r.dedup_until = 'start', false) AS until_start, coalesce(r.version, 1) AS version, r.serialization_key AS key, r.limit_key,
            coalesce(r.run_at, least(_now + make_interval(secs => r.delay_seconds), j.created_at + make_interval(secs => r.at_most_seconds)), _now) AS due_at
        FROM ROWS FROM (unnest(_ids), unnest(_rows), generate_series(1, cardinality(_ids))) AS r(id)
        JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[r.id])
        WHERE r.generate_series = ANY (_which) ORDER BY r.serialization_key COLLATE "C", r.id, r.generate_series
    LOOP
        IF _own OR _row.key IS NULL THEN
            PERFORM asyncjobs.replace_job(_row.id, _row.key, _row.payload, _row.version, _row.due_at, _row.limit_key)
            WHERE _row.payload IS NOT NULL;
        ELSE
            INSERT INTO asyncjobs.replacements (job_id, serialization_key, payload, version, due_at, until_start, limit_key)
            VALUES (_row.id, _row.key, _row.payload, _row.version, _row.due_at, _row.until_start, _row.limit_key);
        END IF;
    END LOOP;
END $$;
