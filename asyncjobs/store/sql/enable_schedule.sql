-- Let a schedule tick again, from now on: ticks of the time before were not missed. None comes twice, also when the clock was put back.
UPDATE asyncjobs.schedules AS s
SET enabled = true, disabled_because = NULL, disabled_reason = NULL, last_tick = asyncjobs.clock(), updated_at = asyncjobs.clock(),
    unbroken_since = asyncjobs.clock(),
    spent = CASE WHEN s.last_tick > asyncjobs.clock() AND pg_catalog.isfinite(s.last_tick)
                 THEN s.spent + pg_catalog.tstzmultirange(pg_catalog.tstzrange(least(s.unbroken_since, s.last_tick), s.last_tick, '[]'))
                 ELSE s.spent END
WHERE s.name = $1::text AND NOT s.enabled
RETURNING s.name;
