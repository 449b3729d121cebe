-- Let these jobs go, which were blocked and are locked; returns those that are pending now. One with a key, or whose time has not come, is
-- left to the promoters. An expiry counts from here.
CREATE FUNCTION asyncjobs.start_dependents(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _pending bigint[];
    _are_later boolean;
BEGIN
    WITH started AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN j.run_at > _now OR j.serialization_key IS NOT NULL THEN 'scheduled'
                          WHEN _any_paused AND asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                          ELSE 'pending' END,
            run_at = greatest(j.run_at, _now), scheduled_at = greatest(j.run_at, _now),
            start_before = greatest(j.run_at, _now) + (j.start_before - j.run_at), updated_at = _now
        WHERE j.id = ANY (_ids) RETURNING j.id, j.status)
    SELECT array_agg(s.id) FILTER (WHERE s.status = 'pending'), bool_or(s.status = 'scheduled') INTO _pending, _are_later FROM started AS s;
    IF _are_later THEN
        PERFORM asyncjobs.tell('d');
    END IF;
    RETURN _pending;
END $$;
