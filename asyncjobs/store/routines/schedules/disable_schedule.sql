-- Let a schedule tick no more. What an operator says counts more than what runners found. Its name, if that was a change.
CREATE FUNCTION asyncjobs.disable_schedule(_name text, _because text, _reason text) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    UPDATE asyncjobs.schedules AS s
    SET enabled = false, disabled_because = _because, disabled_reason = _reason, updated_at = asyncjobs.clock()
    WHERE s.name = _name AND (s.enabled OR (s.disabled_because <> 'operator' AND _because = 'operator'))
    RETURNING s.name;
END $$;
