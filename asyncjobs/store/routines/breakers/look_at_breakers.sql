-- What processes remember of breakers: how they are, with times as seconds from now.
CREATE FUNCTION asyncjobs.look_at_breakers(_services text[])
RETURNS TABLE (service_name text, state text, failure_count integer, success_count integer, last_failure_in float8, half_opens_in float8,
    probe_tokens bigint[], probes_lapse_in float8[], version bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    RETURN QUERY
    SELECT b.service_name, b.state, b.failure_count, b.success_count, extract(epoch FROM b.last_failure_at - _now)::float8,
        extract(epoch FROM b.half_opens_at - _now)::float8, b.probe_tokens,
        ARRAY(SELECT extract(epoch FROM p.at - _now)::float8 FROM unnest(b.probes_lapse_at) WITH ORDINALITY AS p(at, number)
              ORDER BY p.number),
        b.version
    FROM asyncjobs.circuit_breakers AS b WHERE b.service_name = ANY (_services);
END $$;
