-- At most `_limit` members of a workflow that is being cancelled which have not ended, and if they run were not asked to: those that wait at gates
-- first.
CREATE FUNCTION asyncjobs.members_to_cancel(_workflow bigint, _limit integer) RETURNS bigint[] LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT j.id FROM asyncjobs.members AS m JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[m.job_id])
        WHERE m.workflow_id = _workflow AND m.arrived IS NULL AND j.status NOT IN ('completed', 'dead', 'cancelled')
          AND (j.status <> 'processing' OR j.requested_outcome IS DISTINCT FROM 'cancel')
        ORDER BY j.status <> 'blocked', m.number LIMIT _limit);
END $$;
