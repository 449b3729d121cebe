-- Hold the rows of schedules against what a runner declares.
SELECT d.registered, d.added, d.changed, d.enabled, d.removed, d.differing
FROM asyncjobs.declare_schedules($1::bigint, $2::text[], $3::text[]) AS d;
