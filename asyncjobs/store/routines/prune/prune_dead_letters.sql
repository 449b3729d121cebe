-- Acknowledged dead letters that have been kept for long enough, at most `_batch`, and the dead jobs they are of.
CREATE FUNCTION asyncjobs.prune_dead_letters(_batch integer, _dead_letters interval, OUT jobs integer, OUT dead_letters integer) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    _ids bigint[];
    _dead_letter_ids bigint[];
BEGIN
    jobs := 0; dead_letters := 0;
    SELECT array_agg(o.id), array_agg(o.job_id ORDER BY o.job_id) INTO _dead_letter_ids, _ids FROM (
        SELECT d.id, d.job_id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.acknowledged AND d.acknowledged_at < asyncjobs.clock() - _dead_letters
          AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = d.job_id)
        ORDER BY d.acknowledged_at LIMIT _batch) AS o;
    IF _dead_letter_ids IS NULL THEN
        RETURN;
    END IF;
    -- A job that was started over lives on without this dead letter; one that has another dead letter waits for that one's time.
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status = 'dead' AND NOT EXISTS (
            SELECT FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = j.id AND d.id <> ALL (_dead_letter_ids)) ORDER BY j.id);
    jobs := asyncjobs.delete_jobs(_ids);
    WITH ours AS MATERIALIZED (  -- in the order of all who take several; those that are locked are left to the next pass
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_dead_letter_ids) AND NOT EXISTS (
            SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.id = d.job_id)
        ORDER BY d.id FOR UPDATE OF d SKIP LOCKED),
    gone AS (
        DELETE FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (ARRAY(SELECT o.id FROM ours AS o)) RETURNING 1)
    SELECT count(*) INTO dead_letters FROM gone AS g;
END $$;
