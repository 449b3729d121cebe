-- The duration, between none and a hundred years.
CREATE FUNCTION asyncjobs.span(_duration interval) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN _duration > interval '36525 days' THEN interval '36525 days'
                  WHEN _duration < interval '0' THEN interval '0' ELSE _duration END;
