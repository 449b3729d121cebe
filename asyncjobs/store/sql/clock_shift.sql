-- Put the schema's clock this far from the server's, for transactions that begin in a moment, when this one is committed.
-- ($1: seconds)
INSERT INTO asyncjobs.clock_shift (since, shift)
VALUES (pg_catalog.clock_timestamp() + interval '10 milliseconds', pg_catalog.make_interval(secs => $1));
