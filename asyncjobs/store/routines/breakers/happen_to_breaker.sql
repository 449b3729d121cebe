-- Let something happen to a breaker; answers how it was, and how it is now. Events: asked, failed, succeeded, given back, reset, opened;
-- `_seconds` is of a failure the age of the reporter's last success, of an operator's opening its time. A stranger's transaction that
-- holds the row is not waited for long.
CREATE FUNCTION asyncjobs.happen_to_breaker(
    _service text, _event text, _token bigint, _seconds float8, _reason text, _failure_threshold integer, _success_threshold integer,
    _probes integer, _open_seconds float8)
RETURNS TABLE (formerly text, state text, failure_count integer, success_count integer, last_failure_in float8, half_opens_in float8,
    probe_tokens bigint[], probes_lapse_in float8[], version bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _most CONSTANT integer := 100;  -- probes that are remembered
    _state text;
    _failures integer;
    _successes integer;
    _last_failure_at timestamptz;
    _half_opens_at timestamptz;
    _tokens bigint[];
    _lapse_at timestamptz[];
    _is_probe boolean;
BEGIN
    INSERT INTO asyncjobs.circuit_breakers (service_name) VALUES (_service) ON CONFLICT (service_name) DO NOTHING;
    SELECT b.state, b.failure_count, b.success_count, b.last_failure_at, b.half_opens_at, b.probe_tokens, b.probes_lapse_at
    INTO _state, _failures, _successes, _last_failure_at, _half_opens_at, _tokens, _lapse_at
    FROM asyncjobs.circuit_breakers AS b WHERE b.service_name = _service FOR NO KEY UPDATE;
    formerly := _state;
    _is_probe := _state = 'half-open' AND _token IS NOT NULL AND _token = ANY (_tokens);

    IF _event = 'asked' THEN
        IF _state = 'open' AND _half_opens_at <= _now THEN
            _state := 'half-open';
            _successes := 0;
            _tokens := '{}';
            _lapse_at := '{}';
        END IF;
        IF _state = 'half-open' AND (SELECT count(1) FROM unnest(_lapse_at) AS p(at) WHERE p.at > _now) < _probes THEN
            _tokens := (_tokens || _token)[greatest(cardinality(_tokens) + 2 - _most, 1):];
            _lapse_at := (_lapse_at || _now + make_interval(secs => _open_seconds))[greatest(cardinality(_lapse_at) + 2 - _most, 1):];
        END IF;
    ELSIF _event = 'failed' THEN
        IF _state = 'closed' THEN
            _failures := CASE WHEN _last_failure_at < _now - make_interval(secs => _seconds) THEN 1 ELSE _failures + 1 END;
        END IF;
        IF _is_probe OR (_state = 'closed' AND _failures >= _failure_threshold) THEN
            _reason := CASE WHEN _is_probe THEN 'a probe failed' ELSE _failures || ' failures in a row' END;
            _state := 'open';
            _half_opens_at := _now + make_interval(secs => _open_seconds);
        END IF;
        _last_failure_at := greatest(_last_failure_at, _now);
    ELSIF _event = 'succeeded' THEN
        IF _state = 'closed' THEN
            _failures := 0;
        ELSIF _is_probe THEN
            _successes := _successes + 1;
            _state := CASE WHEN _successes >= _success_threshold THEN 'closed' ELSE _state END;
        END IF;
    ELSIF _event = 'reset' THEN
        _state := 'closed';
        _failures := 0;
    ELSIF _event = 'opened' THEN
        _state := 'open';
        _half_opens_at := _now + make_interval(secs => _seconds);
    ELSIF _event <> 'given back' THEN
        RAISE EXCEPTION 'no event of a circuit breaker: %', _event;
    END IF;
    IF _event IN ('succeeded', 'given back') AND _is_probe THEN
        SELECT coalesce(array_agg(p.token ORDER BY p.number), '{}'), coalesce(array_agg(p.at ORDER BY p.number), '{}')
        INTO _tokens, _lapse_at
        FROM unnest(_tokens, _lapse_at) WITH ORDINALITY AS p(token, at, number) WHERE p.token <> _token;
    END IF;
    IF _state <> 'half-open' THEN
        _successes := 0;
        _tokens := '{}';
        _lapse_at := '{}';
    END IF;
    IF _state = 'closed' AND formerly <> 'closed' THEN
        _failures := 0;
    END IF;

    UPDATE asyncjobs.circuit_breakers AS b
    SET state = _state, failure_count = _failures, success_count = _successes, last_failure_at = _last_failure_at,
        half_opens_at = CASE WHEN _state = 'open' THEN _half_opens_at END,
        reason = CASE WHEN _state = 'open' AND (formerly <> 'open' OR _event = 'opened') THEN _reason
                      WHEN _state <> 'closed' THEN b.reason END,
        opened_at = CASE WHEN _state = 'open' AND formerly <> 'open' THEN _now WHEN _state <> 'closed' THEN b.opened_at END,
        half_opened_at = CASE WHEN _state = 'half-open' AND formerly <> 'half-open' THEN _now
                              WHEN _state = 'half-open' THEN b.half_opened_at END,
        probe_tokens = _tokens, probes_lapse_at = _lapse_at, version = b.version + 1, updated_at = _now
    WHERE b.service_name = _service
      -- Most of those who ask are refused, and most of those who report late change nothing.
      AND (b.state, b.failure_count, b.success_count, b.last_failure_at, b.half_opens_at, b.probe_tokens) IS DISTINCT FROM
          (_state, _failures, _successes, _last_failure_at, CASE WHEN _state = 'open' THEN _half_opens_at END, _tokens);

    RETURN QUERY SELECT formerly, l.state, l.failure_count, l.success_count, l.last_failure_in, l.half_opens_in, l.probe_tokens,
        l.probes_lapse_in, l.version
    FROM asyncjobs.look_at_breakers(ARRAY[_service]) AS l;
END $$;
