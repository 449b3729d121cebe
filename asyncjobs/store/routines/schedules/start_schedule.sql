-- Make a schedule's job since a runner starts that declares it (`run_on_start`): unless its last job has not ended, or was made within a
-- minute, as by another runner of the same deployment. Not one that is disabled, or has another definition. Its ticks stay as they are.
CREATE FUNCTION asyncjobs.start_schedule(_name text, _runner bigint, OUT ids bigint[], OUT created boolean[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _job jsonb;
    _last_job_id bigint;
BEGIN
    PERFORM FROM asyncjobs.schedules AS s WHERE s.name = _name FOR NO KEY UPDATE;
    SELECT s.definition -> 'job', s.last_job_id INTO _job, _last_job_id
    FROM asyncjobs.schedules AS s JOIN asyncjobs.schedule_declarations AS d ON d.name = s.name AND d.runner_id = _runner
    WHERE s.name = _name AND s.enabled AND s.definition = d.definition;
    IF NOT FOUND OR EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = _last_job_id AND (
            j.status NOT IN ('completed', 'dead', 'cancelled') OR j.created_at > asyncjobs.clock() - interval '1 minute')) THEN
        RETURN;
    END IF;
    SELECT e.ids, e.created INTO ids, created FROM asyncjobs.enqueue_scheduled(_job, _name, ARRAY[NULL::timestamptz]) AS e;
    UPDATE asyncjobs.schedules AS s SET last_job_id = ids[1] WHERE s.name = _name AND ids IS NOT NULL;
END $$;
