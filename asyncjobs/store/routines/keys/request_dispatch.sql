-- Leave it to a serializer to dispatch the heads of these keys, after the commit.
CREATE FUNCTION asyncjobs.request_dispatch(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count bigint := 0;
BEGIN
    LOOP
        WITH written AS (
            INSERT INTO asyncjobs.dispatch_requests AS r (serialization_key) SELECT DISTINCT k.key FROM unnest(_keys) AS k(key)
            ON CONFLICT (id) DO NOTHING RETURNING r.serialization_key)
        SELECT _count + count(1), array_agg(DISTINCT k.key) FILTER (WHERE w.serialization_key IS NULL) INTO _count, _keys
        FROM unnest(_keys) AS k(key) LEFT JOIN written AS w ON w.serialization_key = k.key;
        EXIT WHEN _keys IS NULL;
        PERFORM asyncjobs.move_sequences();  -- its number belongs to another request
    END LOOP;
    IF _count > 0 THEN
        PERFORM asyncjobs.tell('k');
    END IF;
END $$;
