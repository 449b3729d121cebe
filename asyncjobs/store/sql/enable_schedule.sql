-- Let a schedule tick again, from now on: ticks of the time before were not missed.
UPDATE asyncjobs.schedules AS s
SET enabled = true, disabled_because = NULL, disabled_reason = NULL, last_tick = asyncjobs.clock(), updated_at = asyncjobs.clock()
WHERE s.name = $1::text AND NOT s.enabled
RETURNING s.name;
