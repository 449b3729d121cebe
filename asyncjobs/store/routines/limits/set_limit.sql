-- An operator's values, which beat what programs declare until they are reset (`_values` null). A value of null: no limit of that kind. False: no such
-- limit.
CREATE FUNCTION asyncjobs.set_limit(_kind text, _name text, _values jsonb, _by text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.limits AS l
    SET by_hand = CASE WHEN _values IS NULL THEN '{}' ELSE l.by_hand || _values END, set_by = _by, set_at = asyncjobs.clock()
    WHERE l.kind = _kind AND l.name = _name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM asyncjobs.apply_limit(_kind, _name);
    RETURN true;
END $$;
