-- What is read of a row's times. A column may hold what Python's datetime and timedelta cannot, by a stranger's hand: infinity, or the
-- year 294276. One such row must not break the claim of the rows beside it, nor a list. Inlined, so neither may carry a SET. A CHECK
-- that refuses such rows was tried: it cost 11 µs more in each statement that writes to a row of `jobs`, these 0.1 µs a row.

-- The instant, or the nearest one that every program can hold, in whatever time zone.
CREATE FUNCTION asyncjobs.instant(_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN _at > timestamptz '9999-12-30 00:00:00+00' THEN timestamptz '9999-12-30 00:00:00+00'
                  WHEN _at < timestamptz '0001-01-03 00:00:00+00' THEN timestamptz '0001-01-03 00:00:00+00' ELSE _at END $$;

-- The duration, between none and a hundred years.
CREATE FUNCTION asyncjobs.span(_duration interval) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN _duration > interval '36525 days' THEN interval '36525 days'
                  WHEN _duration < interval '0' THEN interval '0' ELSE _duration END $$;
