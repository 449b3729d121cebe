-- Wait until the schema's clock is where it was put.
SELECT pg_catalog.pg_sleep_until(max(s.since)) FROM asyncjobs.clock_shift AS s;
