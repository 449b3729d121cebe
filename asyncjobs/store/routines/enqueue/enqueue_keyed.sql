-- The keyed rows of an enqueue that are due: into their lines. The lock is held, or they join at the commit (place null). A place that
-- was drawn before one that is in the line comes of a sequence that was behind: then it is moved on, and places are drawn once more.
CREATE FUNCTION asyncjobs.enqueue_keyed(
    _ids bigint[], _tokens bigint[], _types text[], _queues text[], _lanes text[], _versions integer[], _payloads text[],
    _priorities integer[], _max_attempts integer[], _timeouts float8[], _run_ats timestamptz[], _delays float8[],
    _correlation_ids text[], _parent_job_ids bigint[], _creators text[], _dedup_keys text[], _serialization_keys text[],
    _on_deads text[], _trace_contexts text[], _own boolean, _now timestamptz) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _written integer;
    _is_behind boolean;
    _looks boolean := _own OR current_setting('transaction_isolation') <> 'serializable';  -- (there a look is a conflict)
BEGIN
    WITH written AS (
        INSERT INTO asyncjobs.serialized_jobs AS s (id, place, enqueue_token, serialization_key, type, queue, lane, version, payload, priority,
            max_attempts, timeout, correlation_id, parent_job_id, created_by, dedup_key, on_dead, trace_context, scheduled_at, created_at)
        SELECT r.id, CASE WHEN _own THEN nextval('asyncjobs.place_seq') END, r.token, r.key, r.type, r.queue, r.lane,
            coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100), coalesce(r.max_attempts, 3),
            make_interval(secs => r.timeout), r.correlation_id, r.parent_job_id, r.creator, r.dedup_key, coalesce(r.on_dead, 'advance'),
            r.trace_context, coalesce(r.run_at, _now), _now
        FROM unnest(_ids, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities, _max_attempts, _timeouts, _run_ats, _delays,
                _correlation_ids, _parent_job_ids, _creators, _dedup_keys, _serialization_keys, _on_deads, _trace_contexts)
            WITH ORDINALITY AS r(id, token, type, queue, lane, version, payload, priority, max_attempts, timeout, run_at, delay,
                correlation_id, parent_job_id, creator, dedup_key, key, on_dead, trace_context, ordinal)
        WHERE r.id IS NOT NULL AND r.key IS NOT NULL
          AND coalesce(r.run_at, _now + make_interval(secs => r.delay), _now) <= _now
          -- The other try of a call that was made again: its job may be delayed, or have run already. Or somebody else has the id.
          AND NOT (_looks AND EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[r.id])))
        ORDER BY r.ordinal  -- places are drawn after the sort
        ON CONFLICT (id) DO NOTHING
        RETURNING _own AND EXISTS (SELECT FROM asyncjobs.serialized_jobs AS o
            WHERE o.serialization_key = s.serialization_key AND o.place > s.place) AS is_behind)
    SELECT count(1), bool_or(w.is_behind) INTO _written, _is_behind FROM written AS w;
    IF _is_behind THEN
        PERFORM asyncjobs.move_sequences();
        UPDATE asyncjobs.serialized_jobs AS s SET place = q.place
        FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
              FROM (SELECT x.id FROM unnest(_ids, _tokens) WITH ORDINALITY AS r(id, token, ordinal)
                    JOIN asyncjobs.serialized_jobs AS x ON x.id = ANY (ARRAY[r.id]) AND x.enqueue_token = r.token
                    ORDER BY r.ordinal) AS o) AS q
        WHERE s.id = ANY (ARRAY[q.id]);
    END IF;
    RETURN _written;
END $$;
