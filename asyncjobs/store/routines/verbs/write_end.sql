-- Write the end of jobs that do not run; their rows are locked. Their keys are the caller's business.
CREATE FUNCTION asyncjobs.write_end(_ids bigint[], _status text, _message text, _max_errors integer) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _killed jsonb := jsonb_build_object('at', _now, 'type', 'Killed', 'message', _message);
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET status = _status, completed_at = _now, error_message = _message, updated_at = _now, runner_id = NULL,
        errors = CASE WHEN _status <> 'dead' THEN j.errors ELSE asyncjobs.with_error(j.errors, e.entry, _max_errors) END
    FROM unnest(_ids) AS o(id) CROSS JOIN LATERAL (
        SELECT _killed || jsonb_build_object('attempt', x.attempts) AS entry FROM asyncjobs.jobs AS x WHERE x.id = ANY (ARRAY[o.id])) AS e
    WHERE j.id = ANY (ARRAY[o.id]);
    IF _status = 'dead' THEN
        PERFORM asyncjobs.bury(_ids);
    END IF;
    PERFORM asyncjobs.end_dedup(_ids);
    IF EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.workflow_id IS NOT NULL) THEN
        PERFORM asyncjobs.arrive_and_tell(_ids);
    END IF;
END $$;
