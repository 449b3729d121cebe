-- Put the schema's clock this far from the server's. ($1: seconds)
INSERT INTO asyncjobs.clock_shift (shift) VALUES (pg_catalog.make_interval(secs => $1))
ON CONFLICT (is_only) DO UPDATE SET shift = excluded.shift;
