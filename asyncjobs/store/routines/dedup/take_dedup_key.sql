-- Take a dedup key for a job, if nothing is in its way; returns the id of the job that has it now. Waits for a
-- transaction that is about to take it, and looks again in a new statement: a winner that rolls back leaves the key to the waiter.
-- The row of a key that a job has is not locked: it would be until the end of the caller's transaction, and whatever ends that
-- job would wait for it. Inserting before looking keeps serializable transactions with different keys out of each other's way.
-- `_taker`: a job that has taken a key in this call, and whose row is yet to be written.
CREATE FUNCTION asyncjobs.take_dedup_key(
    _type text, _key text, _id bigint, _expires_at timestamptz, _taker bigint, _by_hand boolean DEFAULT false) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz;
    _owner bigint;
    _is_live boolean;
    _is_free boolean;
BEGIN
    LOOP
        INSERT INTO asyncjobs.dedup_keys AS d (type, dedup_key, job_id, expires_at) VALUES (_type, _key, _id, _expires_at)
        ON CONFLICT (type, dedup_key) DO NOTHING;
        IF FOUND THEN
            RETURN _id;
        END IF;
        _now := asyncjobs.moment();
        SELECT d.job_id, d.live, CASE
            WHEN d.live THEN d.job_id IS DISTINCT FROM _taker AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = d.job_id)
            ELSE _by_hand OR d.expires_at <= _now END
        INTO _owner, _is_live, _is_free
        FROM asyncjobs.dedup_keys AS d WHERE d.type = _type AND d.dedup_key = _key;
        IF FOUND AND NOT _is_free THEN
            RETURN _owner;
        END IF;
        UPDATE asyncjobs.dedup_keys AS d
        SET job_id = _id, live = true, expires_at = CASE WHEN _by_hand THEN d.expires_at ELSE _expires_at END
        WHERE d.type = _type AND d.dedup_key = _key AND d.job_id = _owner AND d.live = _is_live
          AND (_is_live OR _by_hand OR d.expires_at <= _now);
        IF FOUND THEN
            RETURN _id;
        END IF;
    END LOOP;
END $$;
