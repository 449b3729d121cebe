-- Lock the keys until the end of the transaction, their slots in ascending order: two orders would deadlock.
CREATE FUNCTION asyncjobs.lock_keys(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), slots.slot)
    FROM unnest(asyncjobs.key_slots(_keys)) AS slots(slot);
END $$;
