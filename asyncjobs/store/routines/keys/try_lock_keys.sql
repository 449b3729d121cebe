-- Lock those of the keys that are not locked, without waiting; returns these.
CREATE FUNCTION asyncjobs.try_lock_keys(_keys text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH slots AS MATERIALIZED (
            SELECT u.slot, pg_try_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), u.slot) AS is_ours
            FROM unnest(asyncjobs.key_slots(_keys)) AS u(slot))
        SELECT DISTINCT k.key FROM unnest(_keys) AS k(key) JOIN slots ON slots.slot = hashtext(k.key) & 4095 WHERE slots.is_ours);
END $$;
