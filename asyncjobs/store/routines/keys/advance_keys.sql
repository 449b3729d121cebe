-- Dispatch the heads of these keys if they have none dispatched, and drop the requests for it. Keys that are locked at the
-- moment are not waited for: they come back in `blocked`. `queues`: of each head that is pending.
CREATE FUNCTION asyncjobs.advance_keys(_keys text[], _requests bigint[], OUT heads bigint[], OUT queues text[], OUT blocked text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked text[] := asyncjobs.try_lock_keys(_keys);
BEGIN
    SELECT array_agg(d.id) INTO heads FROM asyncjobs.dispatch_keys(_locked) AS d;
    DELETE FROM asyncjobs.dispatch_requests AS r WHERE r.id = ANY (_requests) AND r.serialization_key = ANY (_locked);
    blocked := ARRAY(SELECT DISTINCT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (_locked));
    queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (heads) AND j.status = 'pending');
END $$;
