-- The status and the key of a job: 'waiting' also for one that is in its line, not dispatched, and was set to `paused` by hand.
CREATE FUNCTION asyncjobs.status_in_line(_id bigint, OUT status text, OUT serialization_key text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    SELECT CASE WHEN j.status IN ('paused', 'scheduled') AND EXISTS (
                SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = j.id AND s.dispatched_at IS NULL)
            THEN 'waiting' ELSE j.status END, j.serialization_key
    INTO status, serialization_key FROM asyncjobs.jobs AS j WHERE j.id = _id;
END $$;
