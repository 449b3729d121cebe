-- The instant in seconds since 1970, or the nearest one that every program can hold; no null. Inlined, so it carries no SET. (With a CASE for
-- each end, as `instant` has, a call took 15 thousand instructions more for its four.)
CREATE FUNCTION asyncjobs.epoch(_at timestamptz) RETURNS float8 LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.date_part('epoch', GREATEST(LEAST(_at, timestamptz '9999-12-30 00:00:00+00'), timestamptz '0001-01-03 00:00:00+00'));
