-- Let a schedule tick again, from now on: ticks of the time before were not missed. None comes twice, also when the clock was put back.
-- Its name, if that was a change.
CREATE FUNCTION asyncjobs.enable_schedule(_name text) RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    UPDATE asyncjobs.schedules AS s
    SET enabled = true, disabled_because = NULL, disabled_reason = NULL, last_tick = asyncjobs.clock(), updated_at = asyncjobs.clock(),
        unbroken_since = asyncjobs.clock(),
        spent = CASE WHEN s.last_tick > asyncjobs.clock() AND isfinite(s.last_tick)
                     THEN s.spent + tstzmultirange(tstzrange(least(s.unbroken_since, s.last_tick), s.last_tick, '[]'))
                     ELSE s.spent END
    WHERE s.name = _name AND NOT s.enabled
    RETURNING s.name;
END $$;
