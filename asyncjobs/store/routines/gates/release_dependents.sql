-- Release, or break, at most 500 of those who wait at these gates, which are locked and open; `pending` are the jobs that became pending, `are_all`: none is left. What a
-- dependent's other gates say, and whether its workflow is being cancelled, is read under the lock of its row: so two gates that open
-- at the same time do so one after the other.
CREATE FUNCTION asyncjobs.release_dependents(_gates bigint[], OUT pending bigint[], OUT are_all boolean) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _jobs bigint[];
    _ended bigint[];
    _free integer;
BEGIN
    SELECT l.ids, l.are_all INTO _jobs, are_all FROM asyncjobs.lock_dependents(_gates, 'waiting') AS l;
    IF _jobs IS NOT NULL THEN
        UPDATE asyncjobs.dependents AS d
        SET state = CASE WHEN d.rule = 'ended' OR g.dead = 0 THEN 'released' ELSE 'broken' END
        FROM asyncjobs.gates AS g
        WHERE d.gate_id = ANY (_gates) AND d.job_id = ANY (_jobs) AND d.state = 'waiting' AND g.id = ANY (ARRAY[d.gate_id]);
        SELECT s.count, s.pending INTO _free, pending FROM asyncjobs.start_dependents(_jobs) AS s;
        IF _free < cardinality(_jobs) THEN
            _ended := ARRAY(
                SELECT j.id FROM asyncjobs.jobs AS j
                WHERE j.id = ANY (_jobs) AND j.status || '' = 'blocked' AND (
                    EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state = 'broken')
                    OR EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id]) AND w.cancel_requested_at IS NOT NULL)));
            PERFORM asyncjobs.break_dependents(_ended) WHERE cardinality(_ended) > 0;
        END IF;
    END IF;
END $$;
