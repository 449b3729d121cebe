-- The second look at keys that seemed empty, under their locks.
CREATE FUNCTION asyncjobs.look_again(_keys text[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked text[];
BEGIN
    BEGIN
        PERFORM asyncjobs.lock_keys_shortly(_keys);
    EXCEPTION WHEN lock_not_available THEN
        _locked := asyncjobs.try_lock_keys(_keys);
        PERFORM asyncjobs.request_dispatch(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (_locked)));
        _keys := _locked;
    END;
    RETURN (SELECT array_agg(d.id) FROM asyncjobs.dispatch_keys(_keys) AS d);
END $$;
