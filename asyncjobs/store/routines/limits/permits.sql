-- How many more jobs of a key may start now; its row is locked, or this is a guess. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.permits(_k asyncjobs.limit_keys, _l asyncjobs.limits, _now timestamptz) RETURNS integer LANGUAGE sql STABLE
RETURN GREATEST(LEAST(2147483647, asyncjobs.rate_permits(_k, (_l).every, (_l).burst, _now), (_l).each - (
    SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS r
    WHERE (_l).each IS NOT NULL AND asyncjobs.limit_side(r.status) = 1 AND r.limit_key = (_k).key AND r.runner_id IS NOT NULL)), 0);
