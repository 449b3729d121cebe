-- Take a dedup key for a job, unless a live job or an unexpired key has it; returns the id of whoever has it now. Waits for a
-- transaction that is about to take it, and looks again in a new statement: a winner that rolls back leaves the key to the waiter.
-- The row of a key that somebody has is not locked: it would be until the end of the caller's transaction, and whatever ends that
-- job would wait for it. Inserting before looking keeps serializable transactions with different keys out of each other's way.
CREATE FUNCTION asyncjobs.take_dedup_key(_type text, _key text, _id bigint, _expires_at timestamptz) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _owner bigint;
    _is_free boolean;
BEGIN
    LOOP
        INSERT INTO asyncjobs.dedup_keys AS d (type, dedup_key, job_id, expires_at) VALUES (_type, _key, _id, _expires_at)
        ON CONFLICT (type, dedup_key) DO NOTHING;
        IF FOUND THEN
            RETURN _id;
        END IF;
        SELECT d.job_id, NOT d.live AND d.expires_at <= asyncjobs.clock() INTO _owner, _is_free
        FROM asyncjobs.dedup_keys AS d WHERE d.type = _type AND d.dedup_key = _key;
        IF FOUND AND NOT _is_free THEN
            RETURN _owner;
        END IF;
        UPDATE asyncjobs.dedup_keys AS d SET job_id = _id, live = true, expires_at = _expires_at
        WHERE d.type = _type AND d.dedup_key = _key AND NOT d.live AND d.expires_at <= asyncjobs.clock();
        IF FOUND THEN
            RETURN _id;
        END IF;
    END LOOP;
END $$;
