-- One call of a runner: outcomes in, lost claims and new claims out. `_suspects`: by scan, whether it may take one; over all scans one
-- is claimed. Of each group of `_probe_types` (none of them is in `_types`) no
-- more jobs are claimed than its limit, over all scans, and each scan begins with them.
CREATE FUNCTION asyncjobs.finish(
    _runner bigint, _ids bigint[], _tokens bigint[], _statuses text[], _delays float8[], _refunds boolean[], _snoozes boolean[],
    _results text[], _dropped text[], _messages text[], _errors text[], _max_errors integer,
    _scan_queues text[], _scan_lanes text[], _scan_limits integer[], _scan_priorities integer[], _scan_places bigint[],
    _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint,
    _probe_types text[], _probe_groups integer[], _probe_limits integer[], _unbegun boolean[] DEFAULT NULL, _progress text[] DEFAULT NULL)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _written bigint[];
    _pending bigint[];
    _seq bigint := _token_seq;
    _limit integer;
    _count integer;
    _most integer;
    _of text[];
    _is_probe boolean;
    _again boolean;
    _any_paused boolean;
    _versions jsonb;
    _row asyncjobs.answer;
BEGIN
    IF cardinality(_ids) > 0 THEN
        SELECT a.written, a.pending INTO _written, _pending
        FROM asyncjobs.ack(_ids, _tokens, _statuses, _delays, _refunds, _snoozes, _results, _dropped, _messages, _errors, _max_errors,
            _unbegun, _progress) AS a;
        IF coalesce(cardinality(_written), 0) < cardinality(_ids) THEN
            _row.kind := 'lost';
            FOR _row.id, _row.token IN SELECT o.id, o.token FROM unnest(_ids, _tokens) AS o(id, token)
                                       WHERE _written IS NULL OR o.token <> ALL (_written) LOOP
                RETURN NEXT _row;
            END LOOP;
        END IF;
    END IF;

    IF cardinality(_scan_queues) > 0 THEN
        -- Held until the commit: whoever declares this runner dead waits, and then sees these claims.
        SELECT r.versions INTO _versions FROM asyncjobs.runners AS r WHERE r.id = _runner FOR KEY SHARE;
        IF NOT FOUND THEN
            _row := NULL;
            _row.kind := 'gone';
            RETURN NEXT _row;
            _scan_queues := NULL;
        END IF;
        _any_paused := EXISTS (SELECT FROM asyncjobs.pauses);
        IF _any_paused THEN
            _types := ARRAY(SELECT t.type FROM unnest(_types) AS t(type)
                EXCEPT SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
            _probe_types := ARRAY(SELECT CASE WHEN p.name IS NULL THEN t.type END
                FROM unnest(_probe_types) WITH ORDINALITY AS t(type, number)
                LEFT JOIN asyncjobs.pauses AS p ON p.kind = 'type' AND p.name = t.type ORDER BY t.number);
        END IF;
        FOR _scan IN 1 .. coalesce(cardinality(_scan_queues), 0) LOOP
            _limit := _scan_limits[_scan];
            CONTINUE WHEN _any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'queue' AND p.name = _scan_queues[_scan]);
            FOR _group IN 1 .. coalesce(cardinality(_probe_limits), 0) + 1 LOOP
                _is_probe := coalesce(_group <= cardinality(_probe_limits), false);
                _of := CASE WHEN _is_probe
                            THEN ARRAY(SELECT p.type FROM unnest(_probe_types, _probe_groups) AS p(type, number) WHERE p.number = _group)
                            ELSE _types END;
                FOREACH _again IN ARRAY ARRAY[true, false] LOOP
                    _most := CASE WHEN _is_probe THEN least(_limit, _probe_limits[_group]) ELSE _limit END;
                    CONTINUE WHEN _most = 0 OR (_again AND _suspects[_scan] IS NOT TRUE);
                    RETURN QUERY SELECT c.kind, c.scan, c.queue, c.id, c.token, c.type, c.version, c.payload, c.priority, c.place, c.attempts,
                        c.max_attempts, c.scheduled_at, c.run_at, c.started_at, c.created_at, c.serialization_key, c.rest
                    FROM asyncjobs.claim(_runner, _scan_queues[_scan], _scan_lanes[_scan], CASE WHEN _again THEN 1 ELSE _most END,
                        CASE WHEN _again OR _is_probe THEN -1 ELSE _scan_priorities[_scan] END,
                        CASE WHEN _again OR _is_probe THEN -1 ELSE _scan_places[_scan] END, _of, _again, _token_base, _seq,
                        _versions, _scan) AS c;
                    GET DIAGNOSTICS _count = ROW_COUNT;
                    _seq := _seq + _count;
                    _limit := _limit - _count;
                    IF _again AND _count > 0 THEN
                        _suspects := NULL;
                    END IF;
                    IF _is_probe THEN
                        _probe_limits[_group] := _probe_limits[_group] - _count;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
    END IF;

    IF _pending IS NOT NULL THEN
        _row := NULL;
        FOR _row.kind, _row.queue IN
            SELECT DISTINCT 'head', j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending) AND j.status = 'pending' LOOP
            RETURN NEXT _row;
        END LOOP;
    END IF;
END $$;
