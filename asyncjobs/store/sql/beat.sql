-- One beat of a runner, how many runners there are, and the first migration after number $2 that breaks older programs. $3: what
-- is to be said of its parts. $4: whether it stops. No row: it was declared dead, or it left.
UPDATE asyncjobs.runners AS r SET beat = r.beat + 1, beat_at = asyncjobs.clock(), troubles = $3::text[], session = pg_catalog.pg_backend_pid(),
    stopped_at = CASE WHEN $4::boolean THEN coalesce(r.stopped_at, asyncjobs.clock()) END
WHERE r.id = $1::bigint
RETURNING r.beat, (SELECT pg_catalog.count(*) FROM asyncjobs.runners) AS runners,
    (SELECT m.name FROM asyncjobs.migrations AS m WHERE m.breaking AND m.number > $2::integer ORDER BY m.number LIMIT 1) AS newer
