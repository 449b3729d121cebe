-- Whether a runner that serves these queues, each with its only lanes or null, has slots for a job of this queue and lane. No SET clause,
-- so that it is inlined.
CREATE FUNCTION asyncjobs.is_for(_queues jsonb, _queue text, _lane text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.jsonb_typeof(_queues -> _queue) = 'null' OR COALESCE(pg_catalog.jsonb_exists(_queues -> _queue, _lane), false);
