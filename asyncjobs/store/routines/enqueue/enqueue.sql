-- Enqueue: rows of any kind in one call. The callers' batches keep plain, keyed and deduplicated rows apart.
--
-- Order inside: dedup rows, then rows of jobs that are replaced, then the locks of keys: a dedup row is never waited for under a
-- key's lock. Every statement takes a new snapshot (READ COMMITTED), which is what makes "lock, then look" right.
--
-- `_ids` were reserved by an earlier call (null: drawn here), `_tokens` say whose a row is. `_again`: an earlier call with the same
-- ids and tokens was not answered. A row that is there with its token was written by that call; one that is there with another
-- token is somebody else's, who got the id from a server that had forgotten it (a fail-over). `_own` false: the transaction is the
-- caller's, keyed rows join their line at its commit. `_now`: from when delays and the like count (null: from now).
CREATE FUNCTION asyncjobs.enqueue(
    _ids bigint[], _tokens bigint[], _types text[], _queues text[], _lanes text[], _versions integer[], _payloads text[],
    _priorities integer[], _max_attempts integer[], _timeouts float8[], _run_ats timestamptz[], _delays float8[],
    _correlation_ids text[], _parent_job_ids bigint[], _creators text[], _dedup_keys text[], _dedup_fors float8[],
    _on_duplicates text[], _serialization_keys text[], _on_deads text[], _trace_contexts text[], _own boolean, _again boolean,
    _reserve integer, _lock_timeout text, _is_try boolean DEFAULT false, _now timestamptz DEFAULT NULL,
    OUT ids bigint[],         -- the id of each row: its own, or that of the job that has its dedup key
    OUT existing integer[],   -- ordinals of rows whose dedup key another job has
    OUT refused integer[],    -- ordinals of rows that asked to be refused then, or to replace a job with another serialization key:
                              -- if there are any, nothing was written at all
    OUT statuses text[],      -- of the job that each of these met; null when it is another row of this call
    OUT taken integer[],      -- if other rows have some of the reserved ids: the ordinals that were not written, all of them
    OUT reserved bigint[],    -- ids for the next call
    OUT later integer[])      -- ordinals of rows whose time has not come; null when all are due, or the transaction is the caller's
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _new bigint[];        -- the ids of the rows that are to be written here, null for the others
    _replacing integer[]; -- ordinals
    _keys text[];
    _expected integer;
    _written integer;
    _tries integer := 0;
    _row record;
    _other bigint;
    _other_key text;
    _other_status text;
    _taker bigint := -1;  -- the row of this call that took the last key, and its ordinal
    _taker_at integer;
BEGIN
    _now := coalesce(_now, asyncjobs.moment());
    IF _lock_timeout IS NOT NULL THEN
        PERFORM set_config('lock_timeout', _lock_timeout, true);  -- the transaction is this call
    END IF;
    IF 'replace' = ANY (_on_duplicates) AND NOT _is_try THEN
        LOOP  -- until no job ends between the look at its dedup key and the lock of its row
            BEGIN
                SELECT e.ids, e.existing, e.refused, e.statuses, e.taken, e.reserved
                INTO ids, existing, refused, statuses, taken, reserved
                FROM asyncjobs.enqueue(_ids, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities, _max_attempts, _timeouts,
                    _run_ats, _delays, _correlation_ids, _parent_job_ids, _creators, _dedup_keys, _dedup_fors, _on_duplicates,
                    _serialization_keys, _on_deads, _trace_contexts, _own, _again, _reserve, NULL, true, _now) AS e;
                RETURN;
            EXCEPTION WHEN SQLSTATE 'AJ001' THEN
                NULL;
            END;
        END LOOP;
    END IF;
    ids := _ids;
    IF _ids IS NULL THEN
        ids := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, cardinality(_types)));
    END IF;
    _new := ids;
    IF _again THEN
        SELECT array_agg(CASE WHEN f.is_ours IS NULL THEN r.id END ORDER BY r.ordinal),
               CASE WHEN bool_or(NOT f.is_ours)
                    THEN array_agg(r.ordinal::integer ORDER BY r.ordinal) FILTER (WHERE f.is_ours IS NOT TRUE) END
        INTO _new, taken
        FROM unnest(ids, _tokens) WITH ORDINALITY AS r(id, token, ordinal)
        LEFT JOIN LATERAL (
            SELECT j.enqueue_token IS NOT DISTINCT FROM r.token AS is_ours FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[r.id])
        ) AS f ON true;
        IF taken IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;

    IF _dedup_keys IS NOT NULL THEN
        FOR _row IN
            SELECT r.ordinal::integer AS at, r.id, r.type, r.dedup_key, r.on_duplicate, r.key,
                   _now + make_interval(secs => r.dedup_for) AS expires_at
            FROM unnest(_new, _types, _dedup_keys, _dedup_fors, _on_duplicates, _serialization_keys)
                WITH ORDINALITY AS r(id, type, dedup_key, dedup_for, on_duplicate, key, ordinal)
            WHERE r.id IS NOT NULL AND r.dedup_key IS NOT NULL ORDER BY r.type, r.dedup_key, r.ordinal
        LOOP
            _other := asyncjobs.take_dedup_key(_row.type, _row.dedup_key, _row.id, _row.expires_at, _taker);
            IF _other = _row.id THEN
                _taker := _row.id;
                _taker_at := _row.at;
                CONTINUE;
            END IF;
            ids[_row.at] := _other;
            _new[_row.at] := NULL;
            existing := existing || _row.at;
            CONTINUE WHEN coalesce(_row.on_duplicate, 'return') = 'return';
            _other_status := NULL;
            _other_key := _serialization_keys[_taker_at];
            IF _other <> _taker THEN
                SELECT j.status, j.serialization_key INTO _other_status, _other_key FROM asyncjobs.jobs AS j WHERE j.id = _other;
                _other_status := coalesce(_other_status, 'gone');
            END IF;
            IF _row.on_duplicate = 'raise'
               OR (_other_key IS DISTINCT FROM _row.key
                   AND (_other = _taker OR _other_status IN ('waiting', 'scheduled', 'pending', 'paused'))) THEN
                refused := refused || _row.at;
                statuses := array_append(statuses, _other_status);
            ELSIF _other = _taker THEN
                _payloads[_taker_at] := _payloads[_row.at];
                IF _versions IS NOT NULL THEN _versions[_taker_at] := _versions[_row.at]; END IF;
                IF _run_ats IS NOT NULL THEN _run_ats[_taker_at] := _run_ats[_row.at]; END IF;
                IF _delays IS NOT NULL THEN _delays[_taker_at] := _delays[_row.at]; END IF;
            ELSIF _other_status IN ('waiting', 'scheduled', 'pending', 'paused') THEN
                _replacing := _replacing || _row.at;
            END IF;
        END LOOP;
        IF refused IS NOT NULL THEN
            PERFORM asyncjobs.drop_dedup_keys(_new, _types, _dedup_keys);
            RETURN;
        END IF;
    END IF;

    IF _serialization_keys IS NOT NULL AND _own THEN
        SELECT array_agg(DISTINCT k.key) INTO _keys FROM unnest(_serialization_keys) AS k(key) WHERE k.key IS NOT NULL;
    END IF;
    IF _replacing IS NOT NULL THEN
        PERFORM asyncjobs.replace_jobs(ids, _types, _dedup_keys, _payloads, _versions, _run_ats, _delays, _serialization_keys, _replacing,
            _own, _keys, _now);
    ELSIF _keys IS NOT NULL THEN
        PERFORM asyncjobs.lock_keys(_keys);
    END IF;

    IF _keys IS NOT NULL THEN
        PERFORM asyncjobs.check_places(_keys);
    END IF;
    LOOP
        WITH written AS (
            INSERT INTO asyncjobs.jobs AS j (id, enqueue_token, type, queue, lane, version, payload, priority, max_attempts, timeout,
                correlation_id, parent_job_id, created_by, dedup_key, serialization_key, on_dead, trace_context, scheduled_at, run_at,
                status, created_at, updated_at)
            SELECT r.id, r.token, r.type, r.queue, r.lane, coalesce(r.version, 1), r.payload::jsonb, coalesce(r.priority, 100),
                coalesce(r.max_attempts, 3), make_interval(secs => r.timeout), r.correlation_id, r.parent_job_id, r.creator, r.dedup_key,
                r.key, coalesce(r.on_dead, 'advance'), r.trace_context, d.due_at, d.due_at,
                CASE WHEN d.due_at > _now THEN 'scheduled'
                     WHEN r.key IS NOT NULL THEN 'waiting'
                     WHEN _any_paused AND asyncjobs.is_paused(r.type, NULL) THEN 'paused'
                     ELSE 'pending' END, _now, _now
            FROM unnest(_new, _tokens, _types, _queues, _lanes, _versions, _payloads, _priorities, _max_attempts, _timeouts, _run_ats, _delays,
                    _correlation_ids, _parent_job_ids, _creators, _dedup_keys, _serialization_keys, _on_deads, _trace_contexts)
                AS r(id, token, type, queue, lane, version, payload, priority, max_attempts, timeout, run_at, delay,
                    correlation_id, parent_job_id, creator, dedup_key, key, on_dead, trace_context)
            CROSS JOIN LATERAL (SELECT coalesce(r.run_at, _now + make_interval(secs => r.delay), _now) AS due_at) AS d
            WHERE r.id IS NOT NULL
            ON CONFLICT (id) DO NOTHING
            RETURNING j.id, j.place, j.serialization_key, j.status = 'waiting' AS waits),
        -- A place that is drawn here is drawn under the key's lock; at a caller's commit it is drawn then.
        joining AS (
            INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key)
            SELECT w.id, CASE WHEN _own THEN w.place END, w.serialization_key FROM written AS w WHERE w.waits)
        SELECT count(1) INTO _written FROM written AS w;

        IF _keys IS NOT NULL THEN
            PERFORM asyncjobs.dispatch_keys(_keys);
        ELSIF _serialization_keys IS NOT NULL THEN
            PERFORM asyncjobs.note_joining(_serialization_keys);
        END IF;

        _expected := cardinality(_new);
        IF _again OR existing IS NOT NULL OR _tries > 0 THEN
            _expected := (SELECT count(n.id) FROM unnest(_new) AS n(id));
        END IF;
        -- Another row has an id of ours. That is as it should be when the earlier call was committed only while this one waited for it.
        EXIT WHEN _written = _expected OR NOT EXISTS (
            SELECT FROM unnest(_new, _tokens) AS r(id, token)
            WHERE r.id IS NOT NULL
              AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[r.id]) AND j.enqueue_token = r.token));
        IF _ids IS NOT NULL OR _tries > 2 THEN
            RAISE EXCEPTION 'a reserved id belongs to another job' USING ERRCODE = 'serialization_failure';  -- made again, it says which
        END IF;
        _tries := _tries + 1;
        SELECT d.ids, d.new INTO ids, _new FROM asyncjobs.draw_again(ids, _new, _tokens, _types, _dedup_keys, existing) AS d;
    END LOOP;
    IF _written < _expected AND _dedup_keys IS NOT NULL THEN  -- jobs of the other try that have ended would keep these for ever
        PERFORM asyncjobs.end_dedup(ARRAY(
            SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_new) AND j.status IN ('completed', 'dead', 'cancelled')));
    END IF;
    IF _reserve > 0 THEN
        reserved := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, _reserve));
    END IF;
    IF _own AND (_run_ats IS NOT NULL OR _delays IS NOT NULL) THEN
        later := ARRAY(SELECT r.ordinal FROM unnest(_run_ats, _delays) WITH ORDINALITY AS r(run_at, delay, ordinal)
            WHERE coalesce(r.run_at, _now + make_interval(secs => r.delay)) > _now);
    END IF;
END $$;
