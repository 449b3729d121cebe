-- Release, or break, at most 500 of those who wait at these gates, which are locked and open; `pending` are the jobs that became pending, `are_all`:
-- none is left. What a dependent's other gates say, and whether its workflow is being cancelled, is read under the lock of its row: so two
-- gates that open at the same time do so one after the other. Who has no gate left to wait at goes; one with a key, or whose time
-- has not come, is left to the promoters, and so is the opening of limits' keys: a gate may open in any transaction. An expiry counts from here.
CREATE FUNCTION asyncjobs.release_dependents(_gates bigint[], OUT pending bigint[], OUT are_all boolean) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _jobs bigint[];
    _ended bigint[];
    _limited bigint[];
    _free integer;
BEGIN
    SELECT t.ids, t.are_all INTO _jobs, are_all FROM asyncjobs.tell_dependents(_gates, 'waiting') AS t;
    IF _jobs IS NULL THEN
        RETURN;
    END IF;
    WITH started AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN j.run_at > _now OR j.serialization_key IS NOT NULL THEN 'scheduled'
                          WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused(j.type, NULL) THEN 'paused'
                          ELSE 'pending' END,
            run_at = greatest(j.run_at, _now), scheduled_at = greatest(j.run_at, _now),
            start_before = greatest(j.run_at, _now) + (j.start_before - j.run_at), updated_at = _now
        WHERE j.id = ANY (_jobs) AND j.status || '' = 'blocked'
          AND NOT EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state <> 'released')
          AND NOT EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id]) AND w.cancel_requested_at IS NOT NULL)
        RETURNING j.id, j.status, j.limit_key)
    SELECT count(1), array_agg(s.id) FILTER (WHERE s.status = 'pending'), array_agg(s.id) FILTER (WHERE s.status = 'pending' AND s.limit_key IS NOT NULL)
    INTO _free, pending, _limited FROM started AS s;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.request_opening(_limited, false);
    END IF;
    IF _free > coalesce(cardinality(pending), 0) THEN
        PERFORM asyncjobs.tell('d');
    END IF;
    IF _free < cardinality(_jobs) THEN
        _ended := ARRAY(
            SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.id = ANY (_jobs) AND j.status || '' = 'blocked' AND (
                EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state = 'broken')
                OR EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id]) AND w.cancel_requested_at IS NOT NULL)));
        PERFORM asyncjobs.break_dependents(_ended) WHERE cardinality(_ended) > 0;
    END IF;
END $$;
