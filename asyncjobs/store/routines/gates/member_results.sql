-- What the arguments of a member name: the results of other members of its workflow, by their numbers. `ranges`: [[first, last], ...]. None of
-- a job that is no member.
CREATE FUNCTION asyncjobs.member_results(_id bigint, _ranges jsonb)
RETURNS TABLE (number bigint, job_id bigint, type text, status text, result jsonb, result_dropped text) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.number, m.job_id, j.type, j.status, j.result, j.result_dropped
    FROM asyncjobs.members AS o CROSS JOIN jsonb_array_elements(_ranges) AS r(range)
    JOIN asyncjobs.members AS m ON m.workflow_id = o.workflow_id AND m.number BETWEEN (r.range ->> 0)::integer AND (r.range ->> 1)::integer
    LEFT JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[m.job_id])
    WHERE o.job_id = _id;
END $$;
