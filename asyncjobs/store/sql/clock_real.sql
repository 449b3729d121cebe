-- The schema's clock as it is in production.
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE RETURN pg_catalog.now();
