-- The breaker with what goes with its state: since when it is in it, what its probes found out, and why it is not closed.
CREATE FUNCTION asyncjobs.breaker_entered(_was asyncjobs.circuit_breakers, _is asyncjobs.circuit_breakers)
RETURNS asyncjobs.circuit_breakers LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _is.state <> 'half-open' THEN
        _is.success_count := 0;
        _is.probe_tokens := '{}';
        _is.probes_lapse_at := '{}';
        _is.half_opened_at := NULL;
    ELSIF _was.state <> 'half-open' THEN
        _is.half_opened_at := asyncjobs.clock();
    END IF;
    IF _is.state <> 'open' THEN
        _is.half_opens_at := NULL;
    ELSIF _was.state <> 'open' THEN
        _is.opened_at := asyncjobs.clock();
    END IF;
    IF _is.state = 'closed' THEN
        _is.reason := NULL;
        _is.opened_at := NULL;
        _is.failure_count := CASE WHEN _was.state = 'closed' THEN _is.failure_count ELSE 0 END;
    END IF;
    RETURN _is;
END $$;
