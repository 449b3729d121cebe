-- Let a halted key go on without its head, which stays dead. `halted_id`: the job that had halted it; null: the key is not halted.
CREATE FUNCTION asyncjobs.release_key(_key text, OUT halted_id bigint, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    DELETE FROM asyncjobs.serialized_jobs AS s
    WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL AND s.halted_at IS NOT NULL RETURNING s.id INTO halted_id;
    IF halted_id IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;
