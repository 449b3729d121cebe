-- How far running handlers are. A row that another transaction holds (an operator's verb, a handler's own) is skipped, so that it does
-- not hold up the others: returns these jobs.
CREATE FUNCTION asyncjobs.set_progress(_ids bigint[], _tokens bigint[], _progress text[]) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _free bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) ORDER BY j.id + 0 FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
    UPDATE asyncjobs.jobs AS j SET progress = p.progress::jsonb
    FROM unnest(_ids, _tokens, _progress) AS p(id, token, progress)
    WHERE p.id = ANY (_free) AND j.id = ANY (ARRAY[p.id]) AND j.claim_token = p.token AND j.status = 'processing';
    RETURN ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.id <> ALL (_free));
END $$;
