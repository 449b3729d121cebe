-- How many more jobs of a limit, or of a queue, may run: at most `_most`. Null: another claim has it locked. The lock is kept, so nobody else
-- takes of it until the commit; it is counted in a new statement, and so are those that this call has `_picked`. What has less than the scan wants is
-- noted for `settle_limits`. (`_is_cut`: it wants more than `_most`.)
CREATE FUNCTION asyncjobs.limit_room(_kind text, _name text, _most integer, _picked tid[] DEFAULT '{}', _is_cut boolean DEFAULT false)
RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _total integer;
    _room integer;
BEGIN
    IF NOT EXISTS (SELECT FROM asyncjobs.limits AS l WHERE l.kind = _kind AND l.name = _name AND l.total IS NOT NULL) THEN
        RETURN _most;
    END IF;
    SELECT l.total INTO _total FROM asyncjobs.limits AS l WHERE l.kind = _kind AND l.name = _name AND NOT l.is_full FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF _total IS NULL THEN
        RETURN _most;
    END IF;
    IF _kind = 'limit' THEN
        _room := _total - asyncjobs.running_of(_name, _total)
            - (SELECT count(1) FROM asyncjobs.jobs AS p WHERE p.ctid = ANY (_picked) AND asyncjobs.limit_name(p.limit_key) = _name);
        IF _room < _most + _is_cut::integer THEN  -- less than the scan wants
            PERFORM asyncjobs.note_touched(ARRAY[_name], NULL, NULL);
        END IF;
    ELSE
        SELECT _total - count(1) INTO _room FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.queue = _name;
    END IF;
    RETURN least(_most, greatest(_room, 0));
END $$;
