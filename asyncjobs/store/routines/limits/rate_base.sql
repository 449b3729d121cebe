-- From where a key's instant is moved on by what starts now. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.rate_base(_tat timestamptz, _every float8, _burst integer, _now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN _tat > _now + pg_catalog.make_interval(secs => _burst * _every) THEN _now ELSE GREATEST(_tat, _now) END;
