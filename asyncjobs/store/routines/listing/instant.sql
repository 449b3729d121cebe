-- The instant, or the nearest one that every program can hold, in whatever time zone.
CREATE FUNCTION asyncjobs.instant(_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN _at > timestamptz '9999-12-30 00:00:00+00' THEN timestamptz '9999-12-30 00:00:00+00'
                  WHEN _at < timestamptz '0001-01-03 00:00:00+00' THEN timestamptz '0001-01-03 00:00:00+00' ELSE _at END;
