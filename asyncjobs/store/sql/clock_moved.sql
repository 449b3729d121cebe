-- The schema's clock when a test may move it: the server's time and a shift. Replaced in place: plans and defaults that use it follow.
-- Like the real one it says one instant throughout a transaction: what was moved since this one began does not count.
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.now() + coalesce((SELECT s.shift FROM asyncjobs.clock_shift AS s
        WHERE s.since <= pg_catalog.now() ORDER BY s.since DESC LIMIT 1), '0');
