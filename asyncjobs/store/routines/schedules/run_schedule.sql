-- Make a schedule's job now, whatever its ticks and its overlap say. No row: there is no such schedule.
CREATE FUNCTION asyncjobs.run_schedule(_name text) RETURNS TABLE (id bigint, created boolean, queue text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _definition jsonb;
    _made record;
BEGIN
    SELECT s.definition INTO _definition FROM asyncjobs.schedules AS s WHERE s.name = _name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT e.ids, e.created INTO _made
    FROM asyncjobs.enqueue_scheduled(_definition -> 'job', _name, ARRAY[NULL::timestamptz]) AS e;
    UPDATE asyncjobs.schedules AS s SET last_job_id = _made.ids[1] WHERE s.name = _name AND _made.ids IS NOT NULL;
    RETURN QUERY SELECT _made.ids[1], coalesce(_made.created[1], false), _definition #>> '{job,queue}';
END $$;
