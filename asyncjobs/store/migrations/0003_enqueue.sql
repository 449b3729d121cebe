-- Enqueue: rows of any kind in one call. The callers' batches keep plain, keyed and deduplicated rows apart.
--
-- Order inside: dedup rows first, then the locks of keys: a dedup row is never waited for under a key's lock. Every statement takes
-- a new snapshot (READ COMMITTED), which is what makes "lock, then look" right.
--
-- `_ids` were reserved by an earlier call (null: drawn here), `_tokens` say whose a row is: after an answer that was lost, the same
-- call is made again, and a row that is there with its token was written by the first. `_own` false: the transaction is the
-- caller's, keyed rows join their line at its commit.

CREATE FUNCTION asyncjobs.enqueue(
    _ids bigint[], _tokens bigint[], _types text[], _queues text[], _lanes text[], _versions integer[], _payloads text[],
    _priorities integer[], _max_attempts integer[], _timeouts float8[], _run_ats timestamptz[], _delays float8[],
    _correlation_ids text[], _parent_job_ids bigint[], _creators text[], _dedup_keys text[], _dedup_fors float8[],
    _on_duplicates text[], _serialization_keys text[], _on_deads text[], _trace_contexts text[], _own boolean, _reserve integer,
    _lock_timeout text,
    OUT ids bigint[],         -- the id of each row: its own, or that of the live job with its dedup key
    OUT existing integer[],   -- ordinals of rows that met a live job with their dedup key
    OUT duplicates integer[], -- ordinals of rows that asked to be refused then: nothing was written
    OUT taken integer[],      -- ordinals whose reserved id belongs to another row: nothing was written for them
    OUT reserved bigint[])    -- ids for the next call
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _keys text[];
    _written integer;
    _row record;
    _other bigint;
BEGIN
    IF _lock_timeout IS NOT NULL THEN
        PERFORM set_config('lock_timeout', _lock_timeout, true);  -- the transaction is this call
    END IF;
    ids := _ids;
    IF _ids IS NULL THEN
        ids := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, cardinality(_types)));
    END IF;

    IF _dedup_keys IS NOT NULL THEN
        FOR _row IN
            SELECT r.ordinal::integer AS ordinal, r.type, r.dedup_key, ids[r.ordinal] AS id, r.on_duplicate,
                   _tokens[r.ordinal] AS token, _now + make_interval(secs => r.dedup_for) AS expires_at
            FROM unnest(_types, _dedup_keys, _dedup_fors, _on_duplicates)
                WITH ORDINALITY AS r(type, dedup_key, dedup_for, on_duplicate, ordinal)
            WHERE r.dedup_key IS NOT NULL ORDER BY r.type, r.dedup_key, r.ordinal
        LOOP
            -- Made again after a lost answer: the job may have ended meanwhile, and must not take its key once more.
            CONTINUE WHEN EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = _row.id AND j.enqueue_token = _row.token);
            _other := asyncjobs.take_dedup_key(_row.type, _row.dedup_key, _row.id, _row.expires_at);
            IF _other <> _row.id THEN
                ids[_row.ordinal] := _other;
                existing := existing || _row.ordinal;
                IF _row.on_duplicate = 'raise' THEN
                    duplicates := duplicates || _row.ordinal;
                END IF;
            END IF;
        END LOOP;
        IF duplicates IS NOT NULL THEN
            DELETE FROM asyncjobs.dedup_keys AS d USING unnest(_types, _dedup_keys, ids) AS r(type, dedup_key, id)
            WHERE d.type = r.type AND d.dedup_key = r.dedup_key AND d.job_id = r.id
              AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = r.id)
              AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = r.id);
            RETURN;
        END IF;
        IF existing IS NOT NULL THEN
            PERFORM asyncjobs.replace_job(r.id, r.payload, coalesce(r.run_at, _now + make_interval(secs => r.delay)))
            FROM unnest(ids, _payloads, _run_ats, _delays, _on_duplicates)
                WITH ORDINALITY AS r(id, payload, run_at, delay, on_duplicate, ordinal)
            WHERE r.ordinal = ANY (existing) AND r.on_duplicate = 'replace';
        END IF;
    END IF;

    IF _serialization_keys IS NOT NULL AND _own THEN
        SELECT array_agg(DISTINCT k.key) INTO _keys FROM unnest(_serialization_keys) AS k(key) WHERE k.key IS NOT NULL;
        PERFORM asyncjobs.lock_keys(_keys);
    END IF;

    INSERT INTO asyncjobs.jobs (id, enqueue_token, type, queue, lane, version, payload, priority, max_attempts, timeout,
        correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, trace_context, scheduled_at, run_at,
        status, created_at, updated_at)
    SELECT r.id, r.token, r.type, r.queue, r.lane, coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100),
        coalesce(r.max_attempts, 3), make_interval(secs => r.timeout), r.correlation_id, r.parent_job_id, r.creator, r.dedup_key,
        r.key, coalesce(r.on_dead, 'advance'), r.trace_context, d.due_at, d.due_at,
        CASE WHEN d.due_at > _now THEN 'scheduled'
             WHEN _any_paused AND asyncjobs.is_paused(r.queue, r.type, r.key) THEN 'paused'
             ELSE 'pending' END, _now, _now
    FROM unnest(ids, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities, _max_attempts, _timeouts, _run_ats, _delays,
            _correlation_ids, _parent_job_ids, _creators, _dedup_keys, _serialization_keys, _on_deads, _trace_contexts)
        WITH ORDINALITY AS r(id, token, type, queue, lane, version, payload, priority, max_attempts, timeout, run_at, delay,
            correlation_id, parent_job_id, creator, dedup_key, key, on_dead, trace_context, ordinal)
    CROSS JOIN LATERAL (SELECT coalesce(r.run_at, _now + make_interval(secs => r.delay), _now) AS due_at) AS d
    WHERE (existing IS NULL OR r.ordinal <> ALL (existing)) AND (r.key IS NULL OR d.due_at > _now)
    ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS _written = ROW_COUNT;

    IF _serialization_keys IS NOT NULL THEN
        _written := _written + asyncjobs.enqueue_keyed(ids, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities,
            _max_attempts, _timeouts, _run_ats, _delays, _correlation_ids, _parent_job_ids, _creators, _dedup_keys,
            _serialization_keys, _on_deads, _trace_contexts, existing, _own);
        IF _own THEN
            PERFORM asyncjobs.dispatch_keys(_keys);
        END IF;
    END IF;

    IF _written + coalesce(cardinality(existing), 0) < cardinality(ids) THEN
        SELECT array_agg(r.ordinal::integer) INTO taken
        FROM unnest(ids, _tokens) WITH ORDINALITY AS r(id, token, ordinal)
        WHERE (existing IS NULL OR r.ordinal <> ALL (existing))
          AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = r.id AND j.enqueue_token = r.token)
          AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = r.id AND s.enqueue_token = r.token);
    END IF;
    IF _reserve > 0 THEN
        reserved := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, _reserve));
    END IF;
END $$;

-- Take a dedup key for a job, unless a live job or an unexpired key has it; returns the id of whoever has it now. Waits for a
-- transaction that is about to take it, and looks again in a new statement: a winner that rolls back leaves the key to the waiter.
CREATE FUNCTION asyncjobs.take_dedup_key(_type text, _key text, _id bigint, _expires_at timestamptz) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _owner bigint;
BEGIN
    LOOP
        INSERT INTO asyncjobs.dedup_keys AS d (type, dedup_key, job_id, expires_at) VALUES (_type, _key, _id, _expires_at)
        ON CONFLICT (type, dedup_key) DO UPDATE SET job_id = excluded.job_id, live = true, expires_at = excluded.expires_at
            WHERE NOT d.live AND d.expires_at <= asyncjobs.clock()
        RETURNING d.job_id INTO _owner;
        IF FOUND THEN
            RETURN _owner;
        END IF;
        SELECT d.job_id INTO _owner FROM asyncjobs.dedup_keys AS d WHERE d.type = _type AND d.dedup_key = _key;
        IF FOUND THEN
            RETURN _owner;
        END IF;
    END LOOP;
END $$;

-- on_duplicate="replace": give a job that has not started a new payload and time. One that has started stays as it is.
CREATE FUNCTION asyncjobs.replace_job(_id bigint, _payload text, _run_at timestamptz) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _due_at timestamptz := coalesce(_run_at, asyncjobs.clock());
    _found boolean;
BEGIN
    UPDATE asyncjobs.serialized_jobs AS s SET payload = _payload::jsonb WHERE s.id = _id AND s.job_id IS NULL;
    _found := FOUND;
    UPDATE asyncjobs.jobs AS j
    SET payload = _payload::jsonb, updated_at = asyncjobs.clock(), run_at = _due_at, scheduled_at = _due_at,
        status = CASE WHEN j.status = 'waiting' OR j.status = 'paused' THEN j.status
                      WHEN _due_at > asyncjobs.clock() AND j.serialization_key IS NULL THEN 'scheduled'
                      WHEN j.status = 'scheduled' AND j.serialization_key IS NOT NULL THEN j.status
                      ELSE 'pending' END,
        place = CASE WHEN j.status = 'scheduled' THEN nextval('asyncjobs.place_seq') ELSE j.place END
    WHERE j.id = _id AND j.attempts = 0 AND j.status IN ('scheduled', 'pending', 'paused', 'waiting');
    RETURN _found OR FOUND;
END $$;

-- The keyed rows of an enqueue that are due: into their lines. The lock is held, or they join at the commit (place null).
CREATE FUNCTION asyncjobs.enqueue_keyed(
    _ids bigint[], _tokens bigint[], _types text[], _queues text[], _lanes text[], _versions integer[], _payloads text[],
    _priorities integer[], _max_attempts integer[], _timeouts float8[], _run_ats timestamptz[], _delays float8[],
    _correlation_ids text[], _parent_job_ids bigint[], _creators text[], _dedup_keys text[], _serialization_keys text[],
    _on_deads text[], _trace_contexts text[], _except integer[], _own boolean) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _written integer;
BEGIN
    INSERT INTO asyncjobs.serialized_jobs (id, place, enqueue_token, serialization_key, type, queue, lane, version, payload, priority,
        max_attempts, timeout, correlation_id, parent_job_id, created_by, dedup_key, on_dead, trace_context, scheduled_at, created_at)
    SELECT r.id, CASE WHEN _own THEN nextval('asyncjobs.place_seq') END, r.token, r.key, r.type, r.queue, r.lane,
        coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100), coalesce(r.max_attempts, 3),
        make_interval(secs => r.timeout), r.correlation_id, r.parent_job_id, r.creator, r.dedup_key, coalesce(r.on_dead, 'advance'),
        r.trace_context, coalesce(r.run_at, _now), _now
    FROM unnest(_ids, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities, _max_attempts, _timeouts, _run_ats, _delays,
            _correlation_ids, _parent_job_ids, _creators, _dedup_keys, _serialization_keys, _on_deads, _trace_contexts)
        WITH ORDINALITY AS r(id, token, type, queue, lane, version, payload, priority, max_attempts, timeout, run_at, delay,
            correlation_id, parent_job_id, creator, dedup_key, key, on_dead, trace_context, ordinal)
    WHERE r.key IS NOT NULL AND (_except IS NULL OR r.ordinal <> ALL (_except))
      AND coalesce(r.run_at, _now + make_interval(secs => r.delay), _now) <= _now
      AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = r.id)  -- made again after a lost answer: it may have run already
    ORDER BY r.ordinal
    ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS _written = ROW_COUNT;
    RETURN _written;
END $$;

-- The same for a connection of the caller's, whatever its driver: one JSON text in, one row out. It notifies inside the transaction.
CREATE FUNCTION asyncjobs.enqueue_here(_rows text, _channel text, OUT ids bigint[], OUT existing integer[], OUT duplicates integer[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _payload text;
BEGIN
    SELECT e.ids, e.existing, e.duplicates INTO ids, existing, duplicates
    FROM (SELECT array_agg(r.enqueue_token ORDER BY o) AS tokens, array_agg(r.type ORDER BY o) AS types,
            array_agg(r.queue ORDER BY o) AS queues, array_agg(r.lane ORDER BY o) AS lanes, array_agg(r.version ORDER BY o) AS versions,
            array_agg(r.payload ORDER BY o) AS payloads, array_agg(r.priority ORDER BY o) AS priorities,
            array_agg(r.max_attempts ORDER BY o) AS max_attempts, array_agg(r.timeout_seconds ORDER BY o) AS timeouts,
            array_agg(r.run_at ORDER BY o) AS run_ats, array_agg(r.delay_seconds ORDER BY o) AS delays,
            array_agg(r.correlation_id ORDER BY o) AS correlation_ids, array_agg(r.parent_job_id ORDER BY o) AS parent_job_ids,
            array_agg(r.created_by ORDER BY o) AS creators, array_agg(r.dedup_key ORDER BY o) AS dedup_keys,
            array_agg(r.dedup_for_seconds ORDER BY o) AS dedup_fors, array_agg(r.on_duplicate ORDER BY o) AS on_duplicates,
            array_agg(r.serialization_key ORDER BY o) AS keys, array_agg(r.on_dead ORDER BY o) AS on_deads,
            array_agg(r.trace_context ORDER BY o) AS trace_contexts, count(r.dedup_key) > 0 AS dedup, count(r.serialization_key) > 0 AS keyed
          FROM jsonb_array_elements(_rows::jsonb) WITH ORDINALITY AS x(item, o)
          CROSS JOIN LATERAL jsonb_to_record(x.item) AS r(enqueue_token bigint, type text, queue text, lane text, version integer,
            payload text, priority integer, max_attempts integer, timeout_seconds float8, run_at timestamptz, delay_seconds float8,
            correlation_id text, parent_job_id bigint, created_by text, dedup_key text, dedup_for_seconds float8, on_duplicate text,
            serialization_key text, on_dead text, trace_context text)) AS a
    CROSS JOIN LATERAL asyncjobs.enqueue(NULL, a.tokens, a.types, a.queues, a.lanes, a.versions, a.payloads, a.priorities,
        a.max_attempts, a.timeouts, a.run_ats, a.delays, a.correlation_ids, a.parent_job_ids, a.creators,
        CASE WHEN a.dedup THEN a.dedup_keys END, a.dedup_fors, a.on_duplicates, CASE WHEN a.keyed THEN a.keys END, a.on_deads,
        a.trace_contexts, false, 0, NULL) AS e;
    IF _channel IS NOT NULL AND duplicates IS NULL THEN
        FOR _payload IN SELECT DISTINCT 'q:' || (x.item ->> 'queue') FROM jsonb_array_elements(_rows::jsonb) AS x(item)
            WHERE (x.item ->> 'notify')::boolean
        LOOP
            PERFORM pg_notify(_channel, _payload);
        END LOOP;
    END IF;
END $$;
