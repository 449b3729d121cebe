-- Where a runner's schedules are, who fires them, and what the clock says.
SELECT l.now, l.names, l.last_ticks, l.failed, l.led, l.ahead, l.declared, l.stale FROM asyncjobs.look_at_schedules($1::bigint) AS l;
