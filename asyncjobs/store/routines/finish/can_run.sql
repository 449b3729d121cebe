-- Whether a runner with these `versions` can run a job of this type and payload version. No SET clause, so that it is inlined.
CREATE FUNCTION asyncjobs.can_run(_versions jsonb, _type text, _version integer) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN _version = 1 OR _version <= COALESCE((_versions ->> _type)::integer, 1);
