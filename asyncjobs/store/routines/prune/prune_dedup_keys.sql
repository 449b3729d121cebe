-- Delete dedup keys that are free again: their job has ended, and their time is over.
CREATE FUNCTION asyncjobs.prune_dedup_keys(_batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _count integer;
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.dedup_keys AS k WHERE k.ctid = ANY (ARRAY(
            SELECT o.ctid FROM asyncjobs.dedup_keys AS o WHERE NOT o.live AND o.expires_at < _now ORDER BY o.expires_at LIMIT _batch
            FOR UPDATE SKIP LOCKED)) AND NOT k.live AND k.expires_at < _now RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;
