-- What became of outcomes whose answer was lost: those still to be written, and those that were. A claim that is neither is lost;
-- so is one that an operator's SQL took away: it leaves the runner's name on the row, an ack does not.
CREATE FUNCTION asyncjobs.still_processing(_ids bigint[], _tokens bigint[]) RETURNS TABLE (token bigint, is_ours boolean) LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT o.token, j.status = 'processing'
    FROM unnest(_ids, _tokens) AS o(id, token) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token
    WHERE j.status = 'processing' OR j.runner_id IS NULL;
END;
