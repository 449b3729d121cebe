-- Schedules that could not tick, and why.
SELECT s.name, coalesce(s.disabled_reason, '') AS reason FROM asyncjobs.schedules AS s WHERE s.disabled_because = 'failed' ORDER BY s.name
