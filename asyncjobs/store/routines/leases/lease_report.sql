-- What a holder reports, as instants of the server's clock.
CREATE FUNCTION asyncjobs.lease_report(_report jsonb, _now timestamptz) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _report IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'last_run', _now - make_interval(secs => (_report ->> 'run_age')::float8),
        'last_pass_at', _now - make_interval(secs => (_report ->> 'pass_age')::float8),
        'items', _report -> 'items', 'errors', _report -> 'errors', 'failures', _report -> 'failures', 'duration', _report -> 'duration'));
END $$;
