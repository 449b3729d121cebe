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
    _was asyncjobs.circuit_breakers;
    _is asyncjobs.circuit_breakers;
BEGIN
    INSERT INTO asyncjobs.circuit_breakers (service_name) VALUES (_service) ON CONFLICT (service_name) DO NOTHING;
    _was := (SELECT b FROM asyncjobs.circuit_breakers AS b WHERE b.service_name = _service FOR NO KEY UPDATE);
    _is := asyncjobs.breaker_entered(_was, asyncjobs.breaker_after(
        _was, _event, _token, _seconds, _reason, _failure_threshold, _success_threshold, _probes, _open_seconds));
    formerly := _was.state;
    UPDATE asyncjobs.circuit_breakers AS b
    SET state = _is.state, failure_count = _is.failure_count, success_count = _is.success_count, last_failure_at = _is.last_failure_at,
        half_opens_at = _is.half_opens_at, reason = _is.reason, opened_at = _is.opened_at, half_opened_at = _is.half_opened_at,
        probe_tokens = _is.probe_tokens, probes_lapse_at = _is.probes_lapse_at, version = b.version + 1, updated_at = asyncjobs.clock()
    WHERE b.service_name = _service
      -- Most of those who ask are refused, and most of those who report late change nothing.
      AND (b.state, b.failure_count, b.success_count, b.last_failure_at, b.half_opens_at, b.probe_tokens) IS DISTINCT FROM
          (_is.state, _is.failure_count, _is.success_count, _is.last_failure_at, _is.half_opens_at, _is.probe_tokens);
    RETURN QUERY SELECT formerly, l.state, l.failure_count, l.success_count, l.last_failure_in, l.half_opens_in, l.probe_tokens,
        l.probes_lapse_in, l.version
    FROM asyncjobs.look_at_breakers(ARRAY[_service]) AS l;
END $$;
