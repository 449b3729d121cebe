-- Lock a key together with the row of its head: then no ack of the head is under way, which would dispatch the next one without the
-- key's lock. A head that is being completed in its handler's own transaction is not waited for: that lets the key go later, in a
-- statement that sees what was committed before, or under the key's lock. An ack whose commit is slow is: error 55P03 after two seconds.
CREATE FUNCTION asyncjobs.hold_key(_key text) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    SELECT s.id INTO _id FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL;
    FOR _try IN 1 .. 10 LOOP
        BEGIN
            PERFORM FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            EXIT WHEN asyncjobs.is_completing(_id);
            IF _try = 10 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    PERFORM asyncjobs.check_head(_key, _id);  -- the row of a job that is not the head is not held while the key is waited for
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    PERFORM asyncjobs.check_head(_key, _id);
END $$;
