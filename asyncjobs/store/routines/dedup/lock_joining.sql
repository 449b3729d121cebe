-- The locks that a caller's transaction needs at its commit, all at once, in the order that everybody keeps: rows of jobs that it
-- replaces (but for those that wait in a line, which come after their keys), then the keys of these and of the rows that join. What was
-- requeued of them until the keys were locked is replaced, too: then all is let go, and it begins anew.
CREATE FUNCTION asyncjobs.lock_joining() RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ids bigint[] := ARRAY(SELECT r.job_id FROM asyncjobs.replacements AS r);
    _keys text[] := ARRAY(
        SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.place IS NULL
        UNION SELECT r.serialization_key FROM asyncjobs.replacements AS r);
    _made bigint[];
BEGIN
    IF cardinality(_ids) = 0 THEN
        PERFORM asyncjobs.lock_keys(_keys);
        RETURN;
    END IF;
    LOOP
        BEGIN
            _made := asyncjobs.requeued_of(_ids);
            PERFORM asyncjobs.lock_replaced(_ids || _made, _keys);
            IF asyncjobs.requeued_of(_ids) = _made THEN
                RETURN;
            END IF;
            RAISE EXCEPTION 'a job was requeued' USING ERRCODE = 'AJ001';
        EXCEPTION WHEN SQLSTATE 'AJ001' THEN
            NULL;
        END;
    END LOOP;
END $$;
