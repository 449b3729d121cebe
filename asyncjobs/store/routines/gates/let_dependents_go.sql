-- Let these dependents go, those that are blocked still: they are locked, and nothing holds them. They become pending, which are returned; one
-- with a key, or whose time has not come, is left to the promoters, and so is the opening of limits' keys: a gate may open in any transaction.
-- An expiry counts from here.
CREATE FUNCTION asyncjobs.let_dependents_go(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _pending bigint[];
    _limited bigint[];
    _free integer;
BEGIN
    WITH started AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN j.run_at > _now OR j.serialization_key IS NOT NULL THEN 'scheduled'
                          WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                          ELSE 'pending' END,
            run_at = greatest(j.run_at, _now), scheduled_at = greatest(j.run_at, _now),
            start_before = greatest(j.run_at, _now) + (j.start_before - j.run_at), updated_at = _now
        WHERE j.id = ANY (_ids) AND j.status || '' = 'blocked'
        RETURNING j.id, j.status, j.limit_key)
    SELECT count(1), array_agg(s.id) FILTER (WHERE s.status = 'pending'), array_agg(s.id) FILTER (WHERE s.status = 'pending' AND s.limit_key IS NOT NULL)
    INTO _free, _pending, _limited FROM started AS s;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.request_opening(_limited, false);
    END IF;
    IF _free > coalesce(cardinality(_pending), 0) THEN
        PERFORM asyncjobs.tell('d');
    END IF;
    RETURN _pending;
END $$;
