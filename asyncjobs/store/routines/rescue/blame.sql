-- Who is to blame for the ends of these runners: the one job that was on probation there, or the only one that it had; 0 for nobody. It
-- is asked when the first batch of a runner's jobs is taken back, and stands: afterwards they are not all there.
CREATE FUNCTION asyncjobs.blame(_runners bigint[]) RETURNS TABLE (runner_id bigint, job_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT r.id, coalesce((SELECT max(f.blamed) FROM asyncjobs.former_runners AS f WHERE f.id = r.id), (
            SELECT CASE WHEN count(1) = 1 OR count(1) FILTER (WHERE j.suspicion > 0) = 1
                        THEN coalesce(max(j.id) FILTER (WHERE j.suspicion > 0), max(j.id)) ELSE 0 END
            FROM asyncjobs.jobs AS j WHERE j.runner_id = r.id AND j.status = 'processing')) AS blamed
        FROM unnest(_runners) AS r(id)),
    noted AS (
        UPDATE asyncjobs.former_runners AS f SET blamed = a.blamed FROM asked AS a WHERE f.id = a.id AND f.blamed IS NULL)
    SELECT a.id, a.blamed FROM asked AS a;
END $$;
