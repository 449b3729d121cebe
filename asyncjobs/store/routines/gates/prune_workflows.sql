-- Delete what has been kept for long enough of workflows that have ended, at most `_batch` members: the oldest workflow first, its jobs with their
-- dead letters, and last the workflow. One that has a dead letter which nobody has acknowledged stays, as a dead job does. A workflow that
-- is begun is marked, so that none of its members is tried again. `more`: there is more to do.
CREATE FUNCTION asyncjobs.prune_workflows(_batch integer, _keep interval, OUT jobs integer, OUT more boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _workflow bigint;
    _ids bigint[];
    _locked bigint[];
BEGIN
    jobs := 0; more := true;
    WHILE jobs < _batch LOOP
        SELECT w.id INTO _workflow FROM asyncjobs.workflows AS w
        WHERE w.ended_at < asyncjobs.clock() - _keep AND (w.is_pruned OR NOT EXISTS (
            SELECT FROM asyncjobs.members AS m JOIN asyncjobs.dead_letter_jobs AS d ON d.job_id = ANY (ARRAY[m.job_id]) AND NOT d.acknowledged
            WHERE m.workflow_id = w.id AND m.arrived = 1))
        ORDER BY w.ended_at LIMIT 1 FOR UPDATE OF w SKIP LOCKED;
        more := FOUND;
        EXIT WHEN NOT more;
        UPDATE asyncjobs.workflows AS w SET is_pruned = true WHERE w.id = _workflow AND NOT w.is_pruned;
        _ids := ARRAY(SELECT m.job_id FROM asyncjobs.members AS m WHERE m.workflow_id = _workflow ORDER BY m.number LIMIT _batch - jobs);
        _locked := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) ORDER BY j.id FOR UPDATE);
        DELETE FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = ANY (_locked);
        DELETE FROM asyncjobs.jobs AS j WHERE j.id = ANY (_locked);
        DELETE FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (_ids);
        DELETE FROM asyncjobs.members AS m WHERE m.job_id = ANY (_ids);
        jobs := jobs + cardinality(_ids);
        IF NOT EXISTS (SELECT FROM asyncjobs.members AS m WHERE m.workflow_id = _workflow) THEN
            DELETE FROM asyncjobs.arrivals AS a USING asyncjobs.gates AS g WHERE g.workflow_id = _workflow AND a.gate_id = ANY (ARRAY[g.id]);
            DELETE FROM asyncjobs.gates AS g WHERE g.workflow_id = _workflow;
            DELETE FROM asyncjobs.workflows AS w WHERE w.id = _workflow;
        END IF;
    END LOOP;
END $$;
