-- Delete what is remembered of runners that ended long ago.
CREATE FUNCTION asyncjobs.prune_runners(_batch integer, _runners interval) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count integer;
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.former_runners AS f WHERE f.id = ANY (ARRAY(
            SELECT o.id FROM asyncjobs.former_runners AS o WHERE o.ended_at < asyncjobs.clock() - _runners
            ORDER BY o.ended_at LIMIT _batch FOR UPDATE SKIP LOCKED)) RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;
