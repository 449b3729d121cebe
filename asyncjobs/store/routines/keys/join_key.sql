-- One row joins its line at the commit of a caller's transaction that is SERIALIZABLE.
CREATE FUNCTION asyncjobs.join_key(_id bigint, _ctid tid, _key text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _place bigint;
BEGIN
    -- For the first row all keys are locked, in order; what was inserted past `note_joining` is locked by itself.
    PERFORM pg_advisory_xact_lock(hashtext('asyncjobs.serialization_key'), slots.slot)
    FROM unnest(nullif(current_setting('asyncjobs_joining.slots', true), '')::integer[]) AS slots(slot);
    PERFORM set_config('asyncjobs_joining.slots', '', true);
    PERFORM asyncjobs.lock_keys(ARRAY[_key]);
    _place := nextval('asyncjobs.place_seq');
    UPDATE asyncjobs.serialized_jobs AS s SET place = _place WHERE s.ctid = _ctid AND s.id = _id AND s.place IS NULL;
    IF NOT FOUND THEN  -- it was updated since
        UPDATE asyncjobs.serialized_jobs AS s SET place = _place WHERE s.id = _id AND s.place IS NULL;
    END IF;
    PERFORM asyncjobs.request_dispatch(ARRAY[_key]);
END $$;
