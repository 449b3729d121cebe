-- Ended jobs that have been kept for long enough, at most `_batch` of each type. Rows that are locked are left alone, and so are jobs
-- whose key has not let them go: the head of a halted key, or one that its runner has not settled yet.
CREATE FUNCTION asyncjobs.prune_jobs(
    _batch integer, _completed interval, _cancelled interval, _types text[], _keeps interval[],  -- other times for these types
    OUT jobs integer, OUT more boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    _now timestamptz := asyncjobs.clock();
    _type text;
    _keep interval;
    _count integer;
BEGIN
    jobs := 0; more := false;
    SELECT j.type INTO _type FROM asyncjobs.jobs AS j WHERE j.status IN ('completed', 'cancelled') ORDER BY j.type LIMIT 1;
    WHILE _type IS NOT NULL LOOP
        _keep := _keeps[array_position(_types, _type)];
        _count := asyncjobs.delete_jobs(ARRAY(
            SELECT o.id FROM (
                SELECT j.id FROM asyncjobs.jobs AS j
                WHERE j.type = _type AND j.status IN ('completed', 'cancelled')
                  AND j.completed_at < _now - least(coalesce(_keep, _completed), coalesce(_keep, _cancelled))
                  AND j.completed_at < _now - CASE WHEN _keep IS NOT NULL THEN _keep WHEN j.status = 'completed' THEN _completed ELSE _cancelled END
                  AND j.runner_id IS NULL AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = j.id)
                ORDER BY j.completed_at LIMIT _batch) AS o ORDER BY o.id));
        jobs := jobs + _count;
        more := more OR _count >= _batch;
        SELECT j.type INTO _type FROM asyncjobs.jobs AS j
        WHERE j.status IN ('completed', 'cancelled') AND j.type > _type ORDER BY j.type LIMIT 1;
    END LOOP;
END $$;
