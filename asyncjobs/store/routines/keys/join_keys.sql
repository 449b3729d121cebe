-- At the commit of a caller's transaction: its keyed rows join their lines, in commit order. An open transaction thus blocks no other.
CREATE FUNCTION asyncjobs.join_keys() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[];
BEGIN
    IF current_setting('transaction_isolation') = 'serializable' THEN
        PERFORM asyncjobs.join_key(NEW.id, NEW.ctid, NEW.serialization_key);
        RETURN NULL;
    END IF;
    -- An earlier row of this transaction brought them all in. (Each looks for itself: where they were all looked for, one walked over what
    -- was left of the others in the index, and 10,000 took 5 s.)
    IF NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = NEW.id AND s.place IS NULL) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT s.serialization_key) INTO _keys FROM asyncjobs.serialized_jobs AS s WHERE s.place IS NULL;
    PERFORM asyncjobs.lock_joining();
    PERFORM asyncjobs.check_places(_keys);
    UPDATE asyncjobs.serialized_jobs AS s SET place = q.place
    FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
          FROM (SELECT x.id FROM asyncjobs.serialized_jobs AS x WHERE x.place IS NULL ORDER BY x.id) AS o) AS q
    WHERE s.id = ANY (ARRAY[q.id]);
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM asyncjobs.dispatch_keys(_keys);
    ELSE
        -- Under a snapshot older than the lock this could not see what others dispatched: a serializer does it after the commit.
        PERFORM asyncjobs.request_dispatch(_keys);
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.join_keys() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER serialized_jobs_join AFTER INSERT ON asyncjobs.serialized_jobs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.place IS NULL) EXECUTE FUNCTION asyncjobs.join_keys();
