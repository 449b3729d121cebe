-- Let a schedule whose last tick lies in the future begin anew from now. What ticked while the clock was ahead does not tick again.
UPDATE asyncjobs.schedules AS s
SET last_tick = asyncjobs.clock(), unbroken_since = asyncjobs.clock(), updated_at = asyncjobs.clock(),
    spent = s.spent + pg_catalog.tstzmultirange(pg_catalog.tstzrange(least(s.unbroken_since, s.last_tick), s.last_tick, '[]'))
WHERE s.name = $1::text AND s.last_tick = $2::timestamptz AND least(s.unbroken_since, s.last_tick) > asyncjobs.clock()
RETURNING s.last_tick;
