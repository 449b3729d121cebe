-- Release, or break, at most 500 of those who wait at these gates, which are locked and open. `freed` are the jobs that became pending; with
-- `_leaves`, those that nothing holds any more, which are not written yet: the caller claims them, or lets them go. `are_all`: none is left. What a
-- dependent's other gates say, and whether its workflow is being cancelled, is read under the lock of its row: so two gates that open at
-- the same time do so one after the other. Who has no gate left to wait at goes.
CREATE FUNCTION asyncjobs.release_dependents(_gates bigint[], _leaves boolean, OUT freed bigint[], OUT are_all boolean) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _jobs bigint[];
    _ended bigint[];
    _cancelled bigint[];
BEGIN
    SELECT t.ids, t.are_all INTO _jobs, are_all FROM asyncjobs.tell_dependents(_gates, 'waiting') AS t;
    IF _jobs IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(u.id), (  -- (those that somebody's hand has ended are left as they are by what follows)
        SELECT array_agg(w.id) FROM asyncjobs.gates AS g JOIN asyncjobs.workflows AS w ON w.id = ANY (ARRAY[g.workflow_id])
        WHERE g.id = ANY (_gates) AND w.cancel_requested_at IS NOT NULL)
    INTO freed, _cancelled FROM unnest(_jobs) AS u(id)
    WHERE NOT EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[u.id]) AND d.state <> 'released');
    IF _cancelled IS NOT NULL THEN
        freed := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (freed) AND j.workflow_id <> ALL (_cancelled));
    END IF;
    IF coalesce(cardinality(freed), 0) < cardinality(_jobs) THEN
        _ended := ARRAY(
            SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.id = ANY (_jobs) AND j.status || '' = 'blocked' AND (j.workflow_id = ANY (_cancelled)
                OR EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state = 'broken')));
        PERFORM asyncjobs.break_dependents(_ended) WHERE cardinality(_ended) > 0;
    END IF;
    IF NOT _leaves AND cardinality(freed) > 0 THEN
        freed := asyncjobs.let_dependents_go(freed);
    END IF;
END $$;
