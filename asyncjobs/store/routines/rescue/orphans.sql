-- At most `_limit` jobs that name a runner that does not exist. One snapshot sees both: a claim is visible only with its runner.
CREATE FUNCTION asyncjobs.orphans(_limit integer) RETURNS TABLE (id bigint, runner_id bigint, claim_token bigint, status text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH alive AS MATERIALIZED (SELECT r.id FROM asyncjobs.runners AS r),
    gaps AS (
        SELECT lag(a.id, 1, -9223372036854775808) OVER (ORDER BY a.id) AS below, a.id AS above FROM alive AS a
        UNION ALL
        SELECT coalesce(max(a.id), -9223372036854775808), 9223372036854775807 FROM alive AS a)
    SELECT o.id, o.runner_id, o.claim_token, o.status FROM gaps AS g CROSS JOIN LATERAL (
        SELECT j.id, j.runner_id, j.claim_token, j.status FROM asyncjobs.jobs AS j
        WHERE j.runner_id > g.below AND j.runner_id < g.above LIMIT _limit) AS o
    LIMIT _limit;
END $$;
