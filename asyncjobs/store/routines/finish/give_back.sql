-- Give back what is processing under this runner's name but not running there (a claim whose answer was lost), with the attempt.
-- The token changes: whatever still believes to own it is fenced. What was claimed under a later token than `_last_token` is left alone:
-- the call may be carried out long after it was sent, when its connection was lost and the runner claims over another. A row that another
-- transaction holds is passed over: the next such call finds it.
CREATE FUNCTION asyncjobs.give_back(_runner bigint, _running bigint[], _last_token bigint) RETURNS TABLE (id bigint, queue text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _stray bigint[];
BEGIN
    _stray := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.runner_id = _runner AND j.status = 'processing' AND j.id <> ALL (_running)
          AND ((_last_token - coalesce(j.claim_token, _last_token)) & 4294967295) < 2147483648  -- tokens are numbered modulo 2^32
        ORDER BY j.id + 0 FOR UPDATE SKIP LOCKED);  -- a plan made for an empty table would read all jobs in the order of their ids
    RETURN QUERY
    UPDATE asyncjobs.jobs AS j
    SET status = CASE WHEN asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused' ELSE 'pending' END,
        attempts = greatest(j.attempts - 1, 0), claim_token = NULL, runner_id = NULL, started_at = NULL,
        place = p.place, updated_at = asyncjobs.clock()
    FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
          FROM (SELECT u.id FROM unnest(_stray) WITH ORDINALITY AS u(id, number) ORDER BY u.number) AS o) AS p
    WHERE j.id = ANY (ARRAY[p.id])
    RETURNING j.id, j.queue;
    PERFORM asyncjobs.wait_again(_stray);
    PERFORM asyncjobs.request_opening(_stray, true);
END $$;
