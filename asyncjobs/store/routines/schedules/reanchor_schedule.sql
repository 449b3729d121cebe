-- Let a schedule whose last tick lies in the future begin anew from now. What ticked while the clock was ahead does not tick again.
CREATE FUNCTION asyncjobs.reanchor_schedule(_name text, _last timestamptz) RETURNS SETOF timestamptz LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    UPDATE asyncjobs.schedules AS s
    SET last_tick = asyncjobs.clock(), unbroken_since = asyncjobs.clock(), updated_at = asyncjobs.clock(),
        spent = s.spent + tstzmultirange(tstzrange(least(s.unbroken_since, s.last_tick), s.last_tick, '[]'))
    WHERE s.name = _name AND s.last_tick = _last AND least(s.unbroken_since, s.last_tick) > asyncjobs.clock()
    RETURNING s.last_tick;
END $$;
