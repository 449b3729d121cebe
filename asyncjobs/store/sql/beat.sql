-- One beat of a runner, and how many runners there are. No row: it was declared dead, or it left.
UPDATE asyncjobs.runners AS r SET beat = r.beat + 1, beat_at = asyncjobs.clock() WHERE r.id = $1::bigint
RETURNING r.beat, (SELECT pg_catalog.count(*) FROM asyncjobs.runners) AS runners
