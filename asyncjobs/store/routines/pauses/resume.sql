-- Let a queue, a type, a key or all go on, and with it what was set to `paused` by hand: true when it was paused. (Keys: resume_key, too.)
CREATE FUNCTION asyncjobs.resume(_kind text, _name text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _was_paused boolean;
BEGIN
    DELETE FROM asyncjobs.pauses AS p WHERE p.kind = _kind AND p.name = _name;
    _was_paused := FOUND;
    IF _kind IN ('type', 'key') THEN
        INSERT INTO asyncjobs.holds AS h (kind, name, since) VALUES (_kind, _name, asyncjobs.moment())
        ON CONFLICT (kind, name, version) DO UPDATE SET ended_at = NULL, since = excluded.since;
    END IF;
    RETURN _was_paused;
END $$;
