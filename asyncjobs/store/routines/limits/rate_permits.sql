-- How many jobs of a key may start now by its rate and by what a service said; null: any number. Inlined, so it carries no SET.
-- (A millionth of a start is for what is lost where instants are cut to microseconds.)
CREATE FUNCTION asyncjobs.rate_permits(_k asyncjobs.limit_keys, _every float8, _burst integer, _now timestamptz) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE
    WHEN (_k).closed_until > _now AND (_k).closed_until <= _now + pg_catalog.make_interval(secs => (_k).closed_seconds) THEN 0
    WHEN _every IS NULL THEN NULL
    WHEN (_k).tat > _now + pg_catalog.make_interval(secs => _burst * _every) OR (_k).tat <= _now THEN _burst
    ELSE pg_catalog.floor(_burst - EXTRACT(epoch FROM (_k).tat - _now)::float8 / _every + 0.000001)::integer END;
