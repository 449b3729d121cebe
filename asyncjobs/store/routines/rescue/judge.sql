-- What becomes of jobs that were lost, by the rules in `model/probation.py`: the same as `judge` there. `_blamed`: by runner.
CREATE FUNCTION asyncjobs.judge(_ids bigint[], _runners bigint[], _blamed bigint[])
RETURNS TABLE (id bigint, attempts integer, losses integer, suspicion integer, lost_with bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id,
        CASE w.who WHEN 'this' THEN least(j.attempts + least(greatest(j.losses - 1, 0), 5), greatest(j.attempts, j.max_attempts))
                   WHEN 'other' THEN j.attempts - (j.losses > 0)::integer
                   ELSE j.attempts - (j.losses BETWEEN 1 AND 5)::integer END,
        CASE w.who WHEN 'this' THEN 1 WHEN 'other' THEN greatest(j.losses, 1) ELSE least(j.losses + 1, 32767) END::integer,
        CASE w.who WHEN 'this' THEN greatest(j.suspicion, (j.losses > 0 AND j.outlived = 0)::integer)
                   WHEN 'other' THEN 0
                   ELSE CASE j.losses WHEN 0 THEN 0 WHEN 1 THEN (j.outlived = 0)::integer
                                      ELSE least(greatest(j.outlived + 1, j.losses), 5) END END::integer,
        CASE w.who WHEN 'nobody' THEN j.runner_id ELSE j.lost_with END
    FROM asyncjobs.jobs AS j LEFT JOIN unnest(_runners, _blamed) AS b(runner_id, job_id) ON b.runner_id = j.runner_id
    CROSS JOIN LATERAL (SELECT CASE coalesce(b.job_id, 0) WHEN 0 THEN 'nobody' WHEN j.id THEN 'this' ELSE 'other' END) AS w(who)
    WHERE j.id = ANY (_ids);
END $$;
