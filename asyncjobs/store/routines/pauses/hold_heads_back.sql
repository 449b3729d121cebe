-- Heads of paused keys that are pending all the same, by an operator's SQL, become paused.
CREATE FUNCTION asyncjobs.hold_heads_back(_batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.pauses AS p
        JOIN asyncjobs.serialized_jobs AS s ON s.serialization_key = p.name AND s.dispatched_at IS NOT NULL
        JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[s.id])
        WHERE p.kind = 'key' AND j.status = 'pending' LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    _count integer;
BEGIN
    UPDATE asyncjobs.jobs AS j SET status = 'paused', updated_at = asyncjobs.clock()
    WHERE j.id = ANY (_heads) AND asyncjobs.is_paused(NULL, j.serialization_key);
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;
