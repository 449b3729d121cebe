-- The schema's clock when a test may move it: the server's time and a shift. Replaced in place: plans and defaults that use it follow.
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.now() + coalesce((SELECT s.shift FROM asyncjobs.clock_shift AS s), '0');
