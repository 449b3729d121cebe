-- The breaker after the event, as `happen_to_breaker` names them: its state, and what is counted.
CREATE FUNCTION asyncjobs.breaker_after(
    _b asyncjobs.circuit_breakers, _event text, _token bigint, _seconds float8, _reason text, _failure_threshold integer,
    _success_threshold integer, _probes integer, _open_seconds float8)
RETURNS asyncjobs.circuit_breakers LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _is_probe CONSTANT boolean := _b.state = 'half-open' AND coalesce(_token = ANY (_b.probe_tokens), false);
BEGIN
    IF _event = 'asked' THEN
        IF _b.state = 'open' AND _b.half_opens_at <= _now THEN
            _b.state := 'half-open';
            _b.success_count := 0;
            _b.probe_tokens := '{}';
            _b.probes_lapse_at := '{}';
        END IF;
        IF _b.state = 'half-open' AND (SELECT count(1) FROM unnest(_b.probes_lapse_at) AS p(at) WHERE p.at > _now) < _probes THEN
            -- (100 are remembered)
            _b.probe_tokens := (_b.probe_tokens || _token)[greatest(cardinality(_b.probe_tokens) - 98, 1):];
            _b.probes_lapse_at := (_b.probes_lapse_at || _now + make_interval(secs => _open_seconds))[
                greatest(cardinality(_b.probes_lapse_at) - 98, 1):];
        END IF;
    ELSIF _event = 'failed' THEN
        IF _b.state = 'closed' THEN
            _b.failure_count := CASE WHEN _b.last_failure_at < _now - make_interval(secs => _seconds) THEN 1 ELSE _b.failure_count + 1 END;
        END IF;
        IF _is_probe OR (_b.state = 'closed' AND _b.failure_count >= _failure_threshold) THEN
            _b.reason := CASE WHEN _is_probe THEN 'a probe failed' ELSE _b.failure_count || ' failures in a row' END;
            _b.state := 'open';
            _b.half_opens_at := _now + make_interval(secs => _open_seconds);
        END IF;
        _b.last_failure_at := greatest(_b.last_failure_at, _now);
    ELSIF _event = 'succeeded' THEN
        IF _b.state = 'closed' THEN
            _b.failure_count := 0;
        ELSIF _is_probe THEN
            _b.success_count := _b.success_count + 1;
            _b.state := CASE WHEN _b.success_count >= _success_threshold THEN 'closed' ELSE _b.state END;
        END IF;
    ELSIF _event = 'reset' THEN
        _b.state := 'closed';
        _b.failure_count := 0;
    ELSIF _event = 'opened' THEN
        _b.state := 'open';
        _b.reason := _reason;
        _b.half_opens_at := _now + make_interval(secs => _seconds);
    ELSIF _event <> 'given back' THEN
        RAISE EXCEPTION 'no event of a circuit breaker: %', _event;
    END IF;
    IF _event IN ('succeeded', 'given back') AND _is_probe THEN
        SELECT coalesce(array_agg(p.token ORDER BY p.number), '{}'), coalesce(array_agg(p.at ORDER BY p.number), '{}')
        INTO _b.probe_tokens, _b.probes_lapse_at
        FROM unnest(_b.probe_tokens, _b.probes_lapse_at) WITH ORDINALITY AS p(token, at, number) WHERE p.token <> _token;
    END IF;
    RETURN _b;
END $$;
