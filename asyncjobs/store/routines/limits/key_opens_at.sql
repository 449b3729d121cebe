-- From when on a key has a permit by its rate, and by what a service said; `_now` or before: now. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.key_opens_at(_k asyncjobs.limit_keys, _every float8, _burst integer, _now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE RETURN GREATEST(
    CASE WHEN (_k).closed_until <= _now + pg_catalog.make_interval(secs => (_k).closed_seconds) THEN (_k).closed_until END,
    CASE WHEN _every IS NOT NULL AND ((_k).tat <= _now + pg_catalog.make_interval(secs => _burst * _every)
            OR ((_k).closed_until > _now AND (_k).closed_until <= _now + pg_catalog.make_interval(secs => (_k).closed_seconds)))
         THEN (_k).tat - pg_catalog.make_interval(secs => (_burst - 1) * _every) END);
