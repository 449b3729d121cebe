-- Release, or break, at most 500 of those who wait at these gates, which are locked and open; returns the jobs that became pending.
-- What a dependent's other gates say is read under the lock of its row: two gates that open at the same time do so one after the other.
CREATE FUNCTION asyncjobs.release_dependents(_gates bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _jobs bigint[] := asyncjobs.lock_dependents(_gates, 'waiting');
    _broken bigint[];
    _free bigint[];
BEGIN
    UPDATE asyncjobs.dependents AS d
    SET state = CASE WHEN d.rule = 'ended' OR g.dead = 0 THEN 'released' ELSE 'broken' END
    FROM asyncjobs.gates AS g
    WHERE d.gate_id = ANY (_gates) AND d.job_id = ANY (_jobs) AND d.state = 'waiting' AND g.id = ANY (ARRAY[d.gate_id]);
    SELECT array_agg(j.id) FILTER (WHERE s.is_broken), array_agg(j.id) FILTER (WHERE NOT s.is_broken AND NOT s.waits)
    INTO _broken, _free
    FROM asyncjobs.jobs AS j CROSS JOIN LATERAL (
        SELECT bool_or(d.state = 'broken') OR (
                SELECT w.cancel_requested_at IS NOT NULL FROM asyncjobs.workflows AS w WHERE w.id = ANY (ARRAY[j.workflow_id])) AS is_broken,
            bool_or(d.state = 'waiting') AS waits
        FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id])) AS s
    WHERE j.id = ANY (_jobs) AND j.status || '' = 'blocked';
    IF _broken IS NOT NULL THEN
        PERFORM asyncjobs.break_dependents(_broken);
    END IF;
    RETURN CASE WHEN _free IS NOT NULL THEN asyncjobs.start_dependents(_free) END;
END $$;
