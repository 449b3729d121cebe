-- What claimed jobs of stubs left to their handlers.
CREATE FUNCTION asyncjobs.fill_in(
    _ids bigint[], _tokens bigint[], _max_attempts integer[], _timeouts float8[], _priorities integer[], _on_deads text[])
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j
    SET max_attempts = o.max_attempts, timeout = make_interval(secs => o.timeout), priority = o.priority, on_dead = o.on_dead
    FROM unnest(_ids, _tokens, _max_attempts, _timeouts, _priorities, _on_deads)
        AS o(id, token, max_attempts, timeout, priority, on_dead)
    WHERE j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token AND j.status = 'processing';
END $$;
