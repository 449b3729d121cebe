-- Hold the head of a key back that is paused, if it does not run. To be called when the pause (routines/pauses) is committed: whoever was about to
-- make the head pending, or to start the next one, without having seen it, held the head's row or the key, and has ended when both are
-- held here. A call that holds them later sees the pause. So when this has answered nothing of the key starts any more.
CREATE FUNCTION asyncjobs.hold_back_key(_key text) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = asyncjobs.clock()
    FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL AND j.id = s.id AND j.status = 'pending'
      AND asyncjobs.is_paused(NULL, _key);
END $$;
