-- Make the jobs of a schedule: one per instant, which is when it was to run (null: now). Keys are locked: the transaction is the call.
CREATE FUNCTION asyncjobs.enqueue_scheduled(_job jsonb, _name text, _ticks timestamptz[], OUT ids bigint[], OUT created boolean[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count integer := cardinality(_ticks);
    _made record;
BEGIN
    SELECT e.ids, e.existing, e.refused INTO _made
    FROM jsonb_to_record(_job) AS r(type text, queue text, lane text, version integer, payload text, priority integer,
        max_attempts integer, timeout_seconds float8, correlation_id text, created_by text, dedup_key text, dedup_for_seconds float8,
        on_duplicate text, serialization_key text, on_dead text, trace_context text)
    CROSS JOIN LATERAL asyncjobs.enqueue(NULL, ARRAY(SELECT asyncjobs.fresh_token() FROM generate_series(1, _count)), array_fill(r.type, ARRAY[_count]),
        array_fill(r.queue, ARRAY[_count]), array_fill(r.lane, ARRAY[_count]), array_fill(r.version, ARRAY[_count]),
        array_fill(r.payload, ARRAY[_count]), array_fill(r.priority, ARRAY[_count]), array_fill(r.max_attempts, ARRAY[_count]),
        array_fill(r.timeout_seconds, ARRAY[_count]), _ticks, NULL, array_fill(r.correlation_id, ARRAY[_count]), NULL,
        array_fill(coalesce(r.created_by, 'schedule ' || _name), ARRAY[_count]),
        CASE WHEN r.dedup_key IS NOT NULL THEN array_fill(r.dedup_key, ARRAY[_count]) END,
        array_fill(r.dedup_for_seconds, ARRAY[_count]), array_fill(r.on_duplicate, ARRAY[_count]),
        CASE WHEN r.serialization_key IS NOT NULL THEN array_fill(r.serialization_key, ARRAY[_count]) END,
        array_fill(r.on_dead, ARRAY[_count]), array_fill(r.trace_context, ARRAY[_count]), true, false, 0, NULL) AS e;
    IF _made.refused IS NOT NULL THEN
        RETURN;  -- its dedup key is taken, and it asked for nothing then
    END IF;
    ids := _made.ids;
    created := ARRAY(SELECT n.at <> ALL (coalesce(_made.existing, '{}')) FROM generate_series(1, _count) AS n(at) ORDER BY n.at);
END $$;
