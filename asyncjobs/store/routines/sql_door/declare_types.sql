-- What a runner declares as it registers: an array of definitions. Their digests are in its own row, which is written by the same
-- statement. A row that is there is locked by writing to it, so that it is not deleted meanwhile.
CREATE FUNCTION asyncjobs.declare_types(_types jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _declared CONSTANT bigint[] := ARRAY(SELECT (d.value ->> 'digest')::bigint FROM jsonb_array_elements(_types) AS d);
BEGIN
    INSERT INTO asyncjobs.types AS t (digest, version, priority, max_attempts, max_depth, max_payload_bytes, timeout_seconds, app_timeout_seconds,
        expires_seconds, name, type, queue, lane, breaker, on_dead, serialize_by, dedup_by, limit_name, limit_by, tags, redact, schema, sieve, queues)
    SELECT d.digest, d.version, d.priority, d.max_attempts, d.max_depth, d.max_payload_bytes, d.timeout_seconds, d.app_timeout_seconds,
        d.expires_seconds, d.name, d.type, d.queue, d.lane, d.breaker, d.on_dead, nullif(d.serialize_by, 'null'), nullif(d.dedup_by, 'null'),
        d.limit_name, nullif(d.limit_by, 'null'), d.tags, d.redact, d.schema, d.sieve, d.queues
    FROM jsonb_populate_recordset(NULL::asyncjobs.types, _types) AS d ORDER BY d.digest
    ON CONFLICT (digest) DO UPDATE SET declared_at = asyncjobs.clock();
    PERFORM asyncjobs.forget_types(_declared);
END $$;
