-- How far running handlers are.
CREATE FUNCTION asyncjobs.set_progress(_ids bigint[], _tokens bigint[], _progress text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j SET progress = p.progress::jsonb
    FROM unnest(_ids, _tokens, _progress) AS p(id, token, progress)
    WHERE j.id = ANY (ARRAY[p.id]) AND j.claim_token = p.token AND j.status = 'processing';
END $$;
