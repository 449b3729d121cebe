-- Let those of these jobs go that are blocked and have no gate left to wait at; their rows are locked. `pending`: those that are now. One
-- with a key, or whose time has not come, is left to the promoters. An expiry counts from here.
-- The keys of limits are opened by the promoters: a gate may open in any transaction.
CREATE FUNCTION asyncjobs.start_dependents(_ids bigint[], OUT count integer, OUT pending bigint[]) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _limited bigint[];
BEGIN
    WITH started AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN j.run_at > _now OR j.serialization_key IS NOT NULL THEN 'scheduled'
                          WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                          ELSE 'pending' END,
            run_at = greatest(j.run_at, _now), scheduled_at = greatest(j.run_at, _now),
            start_before = greatest(j.run_at, _now) + (j.start_before - j.run_at), updated_at = _now
        WHERE j.id = ANY (_ids) AND j.status || '' = 'blocked'
          AND NOT EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state <> 'released')
          AND NOT EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id]) AND w.cancel_requested_at IS NOT NULL)
        RETURNING j.id, j.status, j.limit_key)
    SELECT count(1), array_agg(s.id) FILTER (WHERE s.status = 'pending'), array_agg(s.id) FILTER (WHERE s.status = 'pending' AND s.limit_key IS NOT NULL)
    INTO count, pending, _limited FROM started AS s;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.request_opening(_limited, false);
    END IF;
    IF count > coalesce(cardinality(pending), 0) THEN
        PERFORM asyncjobs.tell('d');
    END IF;
END $$;
