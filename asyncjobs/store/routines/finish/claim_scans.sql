-- The scans of a call. `_suspects`: by scan, whether it may take one; over all scans one is claimed. Of the types of each of `_probes`
-- ([{"types": [...], "limit": 1}, ...], none of them is in `_types`) no more jobs are claimed than its limit, over all scans, and each
-- scan begins with them. What is paused is left out. `_slots`: how many of what each scan takes can start at once (routines/limits). `_ahead`: how many followers it may take (_chapter). The runner's row is held.
CREATE FUNCTION asyncjobs.claim_scans(
    _runner bigint, _versions jsonb, _queues text[], _lanes text[], _limits integer[], _slots integer[], _priorities integer[],
    _places bigint[], _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint, _probes jsonb,
    _ahead integer[] DEFAULT NULL)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _probe_limits integer[] := ARRAY(
        SELECT (p.probe ->> 'limit')::integer FROM jsonb_array_elements(_probes) WITH ORDINALITY AS p(probe, number) ORDER BY p.number);
    _last CONSTANT integer := cardinality(_probe_limits);
    _any_paused boolean;
    _paused text[];  -- types
    _limit integer;
    _count integer;
    _most integer;
    _of text[];
    _is_probe boolean; _again boolean; _is_limited boolean;
BEGIN
    _any_paused := EXISTS (SELECT FROM asyncjobs.pauses);
    IF _any_paused THEN
        _paused := ARRAY(SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
        _types := ARRAY(SELECT t.type FROM unnest(_types) AS t(type) WHERE t.type <> ALL (_paused));
    END IF;
    FOR _scan IN 1 .. cardinality(_queues) LOOP
        _limit := _limits[_scan];
        CONTINUE WHEN _any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'all' OR (p.kind = 'queue' AND p.name = _queues[_scan]));
        _is_limited := EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.queue = _queues[_scan] AND t.state = 'open');
        FOR _group IN 1 .. _last + 1 LOOP
            _is_probe := _group <= _last;
            _of := CASE WHEN _is_probe THEN ARRAY(
                SELECT t.type FROM jsonb_array_elements_text(_probes -> _group - 1 -> 'types') AS t(type)
                WHERE _paused IS NULL OR t.type <> ALL (_paused)) ELSE _types END;
            FOREACH _again IN ARRAY ARRAY[true, false] LOOP
                _most := CASE WHEN _is_probe THEN least(_limit, _probe_limits[_group]) ELSE _limit END;
                CONTINUE WHEN _most <= 0 OR (_again AND _suspects[_scan] IS NOT TRUE);
                RETURN QUERY SELECT c.* FROM asyncjobs.claim(_runner, _queues[_scan], _lanes[_scan], CASE WHEN _again THEN 1 ELSE _most END,
                    CASE WHEN (_again OR _is_probe) AND _priorities[_scan] > -32769 THEN -32768 ELSE _priorities[_scan] END,
                    CASE WHEN (_again OR _is_probe) AND _priorities[_scan] > -32769 THEN -1 ELSE _places[_scan] END, _of, _again, _token_base, _token_seq, _versions, _scan,
                    CASE WHEN _is_limited THEN _slots[_scan] - _limits[_scan] + _limit END,
                    CASE WHEN _again OR _is_probe OR _is_limited THEN 0 ELSE _ahead[_scan] END) AS c;
                GET DIAGNOSTICS _count = ROW_COUNT;
                -- (What has expired leaves gaps.)
                _token_seq := _token_seq + CASE WHEN _count = 0 THEN 0 WHEN _again THEN 1 ELSE _most END;
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
END $$;
