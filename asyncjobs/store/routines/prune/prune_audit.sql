-- Delete what operators did long ago.
CREATE FUNCTION asyncjobs.prune_audit(_batch integer, _audit interval) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count integer;
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.audit AS a WHERE a.id = ANY (ARRAY(
            SELECT o.id FROM asyncjobs.audit AS o WHERE o.at < asyncjobs.clock() - _audit
            ORDER BY o.at LIMIT _batch FOR UPDATE SKIP LOCKED)) RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;
