-- The job that was seen to have this dedup key. Error AJ001 if it holds it until its start, and has been started since: then nothing stands
-- in the way of a new job.
CREATE FUNCTION asyncjobs.look_at_owner(
    _type text, _key text, _id bigint, _until text, _now timestamptz, OUT status text, OUT serialization_key text, OUT is_new boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT j.status, j.serialization_key, j.attempts = 0 AND j.started_at IS NULL INTO status, serialization_key, is_new
    FROM asyncjobs.jobs AS j WHERE j.id = _id;
    status := coalesce(status, 'gone');
    is_new := coalesce(is_new, false);
    IF _until = 'start' AND NOT is_new AND NOT EXISTS (
        SELECT FROM asyncjobs.dedup_keys AS d
        WHERE d.type = _type AND d.dedup_key = _key AND d.job_id = _id AND (d.live OR d.expires_at > _now)) THEN
        RAISE EXCEPTION 'a job was started, and has let its key go' USING ERRCODE = 'AJ001';
    END IF;
END $$;
