-- Claim the next jobs of the lines of these heads, which this call has just claimed: at most `_limit`, and of each line its share. The rules are
-- in _chapter. Heads that may have no followers are left out here.
CREATE FUNCTION asyncjobs.claim_followers(
    _runner bigint, _queue text, _heads bigint[], _limit integer, _types text[], _versions jsonb, _scan integer, _token_base bigint, _token_seq bigint)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _ids bigint[];
    _keys text[];
    _picked tid[];  -- locked, so they stay where they are
    _numbers bigint[];
BEGIN
    SELECT array_agg(w.id ORDER BY w.serialization_key, w.place), array_agg(w.serialization_key ORDER BY w.serialization_key, w.place)
    INTO _ids, _keys
    FROM unnest(_heads) AS h(id)
    JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[h.id])
    JOIN asyncjobs.serialized_jobs AS d ON d.id = ANY (ARRAY[h.id])
    CROSS JOIN LATERAL (
        SELECT s.id, s.serialization_key, s.place FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = d.serialization_key AND s.dispatched_at IS NULL AND s.place > d.place
        ORDER BY s.place LIMIT (_limit - 1) / cardinality(_heads) + 1) AS w
    WHERE j.status = 'processing' AND j.runner_id = _runner AND j.losses = 0 AND j.suspicion = 0 AND j.on_dead NOT IN ('ask', 'ask all')
      AND d.dispatched_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _queue)
      AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = d.serialization_key);
    IF _ids IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(f.ctid ORDER BY f.number), array_agg(f.number ORDER BY f.number) INTO _picked, _numbers FROM (
        SELECT j.ctid, u.number FROM unnest(_ids[:_limit]) WITH ORDINALITY AS u(id, number) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[u.id])
        WHERE asyncjobs.may_follow(j, _queue, _types, _versions) FOR UPDATE OF j SKIP LOCKED) AS f;
    IF cardinality(_picked) < least(cardinality(_ids), _limit) THEN  -- a run ends before the first that may not follow
        _picked := ARRAY(
            SELECT f.ctid FROM (
                SELECT p.ctid, u.number, bool_and(p.ctid IS NOT NULL) OVER (PARTITION BY u.key ORDER BY u.number) AS is_next
                FROM unnest(_keys[:_limit]) WITH ORDINALITY AS u(key, number)
                LEFT JOIN unnest(_picked, _numbers) AS p(ctid, number) ON p.number = u.number) AS f
            WHERE f.is_next ORDER BY f.number);
    END IF;
    RETURN QUERY
    UPDATE asyncjobs.jobs AS j
    SET status = 'processing', attempts = least(j.attempts, 2147483646) + 1, runner_id = _runner, error_message = NULL,
        started_at = greatest(_now, j.created_at), claim_token = (_token_base << 32) | ((_token_seq + p.number) & 4294967295),
        place = nextval('asyncjobs.place_seq'), run_at = _now, updated_at = _now
    FROM unnest(_picked) WITH ORDINALITY AS p(ctid, number) WHERE j.ctid = p.ctid
    RETURNING (asyncjobs.claimed('follower' || coalesce(' ' || j.workflow_id::text, ''), _scan, j)).*;
END $$;
