-- Note that these members, which had died or been cancelled, are to end once more; their rows in `jobs` are locked. Returns, as
-- `mark_arrived`, what arrives where.
CREATE FUNCTION asyncjobs.unmark_arrived(_ids bigint[], OUT gates bigint[], OUT counts integer[], OUT deads integer[], OUT dead_ids bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH living AS (
        UPDATE asyncjobs.members AS m SET arrived = NULL, broken_by = NULL
        WHERE m.job_id = ANY (_ids) AND m.arrived = 1
        RETURNING m.workflow_id || m.gates AS gates),
    counted AS (
        SELECT g.id, -count(1)::integer AS n FROM living AS l CROSS JOIN LATERAL unnest(l.gates) AS g(id) GROUP BY g.id)
    SELECT array_agg(c.id), array_agg(c.n), array_agg(c.n), array_agg(NULL::bigint) INTO gates, counts, deads, dead_ids FROM counted AS c;
END $$;
