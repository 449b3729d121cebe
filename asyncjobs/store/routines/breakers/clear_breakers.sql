-- Close all circuit breakers, for tests.
CREATE FUNCTION asyncjobs.clear_breakers() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.circuit_breakers AS b
    SET state = 'closed', reason = NULL, failure_count = 0, success_count = 0, last_failure_at = NULL, opened_at = NULL, half_opens_at = NULL,
        half_opened_at = NULL, probe_tokens = '{}', probes_lapse_at = '{}', version = b.version + 1, updated_at = asyncjobs.clock();
END $$;
