-- finish for the call that a key with a backlog makes for each of its jobs: one attempt that completed, no scan. The next head of its
-- key becomes ours with it, in the general slot that its caller took, if `_queue` is the head's queue and this runner can run its type; the caller
-- asks for that only while there is nothing else to be claimed (null: not at all). Else it becomes pending, as in `finish`. The rows
-- of the answer are those of `finish`.
--
-- It is one function with as few statements as can be, since they cost more than what they do: with `ack`, `let_keys_go`,
-- `dispatch_keys` and two scans the same took 880 us of the server's time, of which 330 are left. The head is looked for in the
-- snapshot of the statement that deletes the row before it, which may miss heads that have joined since; then it is looked for again.
-- So it is while anything at all is paused, and of a next one that does not wait: it follows in a run (_chapter).
CREATE FUNCTION asyncjobs.finish_one(
    _runner bigint, _id bigint, _token bigint, _result text, _dropped text, _queue text, _types text[], _next_token bigint)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET lock_timeout = '100ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _key text;
    _dedup_key text;
    _limit_key text;
    _workflow bigint;
    _is_there boolean;  -- the runner (null: it is not), and whether there are limits
    _heads bigint[];
    _free bigint[];
    _row asyncjobs.answer;
BEGIN
    -- The runner's row is held until the commit: a runner that declares it dead waits, and then sees the next claim. Nothing else is looked
    -- at here: this statement may have waited for the job's row (routines/keys: look under the lock).
    UPDATE asyncjobs.jobs AS j
    SET status = 'completed', completed_at = _now, result = _result::jsonb, result_dropped = _dropped, error_message = NULL,
        runner_id = NULL, updated_at = _now
    WHERE j.id = _id AND j.claim_token = _token AND j.status = 'processing'
    RETURNING j.serialization_key, j.dedup_key, j.limit_key, j.workflow_id, CASE WHEN _queue IS NOT NULL THEN
        (SELECT EXISTS (SELECT FROM asyncjobs.limits) FROM asyncjobs.runners AS r WHERE r.id = _runner FOR KEY SHARE) END
    INTO _key, _dedup_key, _limit_key, _workflow, _is_there;
    IF NOT FOUND THEN
        _row.kind := 'lost'; _row.id := _id; _row.token := _token; RETURN NEXT _row;
        RETURN;
    END IF;
    IF _dedup_key IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(ARRAY[_id]);
    END IF;
    IF _limit_key IS NOT NULL THEN
        PERFORM asyncjobs.open_limits(ARRAY[_id], true);
        RETURN QUERY SELECT h.* FROM asyncjobs.settled_limits() AS h;
    END IF;
    _free := CASE WHEN _workflow IS NOT NULL THEN asyncjobs.arrive(ARRAY[_id]) END;
    IF _key IS NULL THEN
        IF _free IS NOT NULL THEN  -- (a statement that gives nothing takes a tenth of this call)
            RETURN QUERY SELECT h.* FROM asyncjobs.heads(_free) AS h;
        END IF;
        RETURN;
    END IF;
    IF _queue IS NOT NULL AND _is_there IS NULL THEN
        _row.kind := 'gone'; RETURN NEXT _row;
    END IF;

    IF _is_there IS NULL THEN
        _heads := asyncjobs.let_keys_go(ARRAY[_id], '{}');
    ELSE
        RETURN QUERY
        WITH released AS (
            DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.dispatched_at IS NOT NULL AND s.halted_at IS NULL
            RETURNING s.serialization_key, s.place),
        dispatched AS (
            UPDATE asyncjobs.serialized_jobs AS s SET dispatched_at = _now
            WHERE s.dispatched_at IS NULL AND NOT EXISTS (SELECT FROM asyncjobs.pauses) AND s.id = (
                SELECT h.id FROM released AS r CROSS JOIN LATERAL (
                    SELECT w.id FROM asyncjobs.serialized_jobs AS w
                    WHERE w.serialization_key = r.serialization_key AND w.dispatched_at IS NULL AND w.place > r.place
                    ORDER BY w.place LIMIT 1) AS h
                WHERE EXISTS (SELECT FROM asyncjobs.jobs AS n WHERE n.id = ANY (ARRAY[h.id]) AND n.status || '' = 'waiting'))
            RETURNING s.id)
        -- (A suspect is left to a scan: only that knows whether a runner may have one.)
        UPDATE asyncjobs.jobs AS j
        SET (status, attempts, started_at, runner_id, claim_token, error_message) = (
                SELECT CASE WHEN x.starts THEN 'processing' ELSE 'pending' END,
                    CASE WHEN x.starts THEN least(j.attempts, 2147483646) + 1 ELSE j.attempts END,
                    CASE WHEN x.starts THEN greatest(_now, j.created_at) ELSE j.started_at END, CASE WHEN x.starts THEN _runner END,
                    CASE WHEN x.starts THEN _next_token END, CASE WHEN NOT x.starts THEN j.error_message END
                FROM (SELECT j.queue = _queue AND j.type = ANY (_types) AND j.suspicion = 0 AND asyncjobs.may_start(j.start_before) AND j.limit_key IS NULL
                    AND NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _queue)
                    AND (j.version = 1 OR asyncjobs.can_run((SELECT r.versions FROM asyncjobs.runners AS r WHERE r.id = _runner), j.type, j.version)) AS starts) AS x),
            place = nextval('asyncjobs.place_seq'), run_at = _now, updated_at = _now
        FROM dispatched AS d WHERE j.id = ANY (ARRAY[d.id]) AND j.status || '' = 'waiting'
        RETURNING (asyncjobs.claimed(CASE j.status WHEN 'processing' THEN asyncjobs.answer_kind(j.on_dead, j.workflow_id, j.limit_key COLLATE "default") ELSE 'head' END, 1, j)).*;
        IF NOT FOUND THEN
            _heads := asyncjobs.look_again(ARRAY[_key]);
        ELSIF _is_there THEN
            PERFORM asyncjobs.request_opening(ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
                WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL), false);
        END IF;
    END IF;
    IF _heads IS NOT NULL OR _free IS NOT NULL THEN
        RETURN QUERY SELECT h.* FROM asyncjobs.heads(_heads || _free) AS h;
    END IF;
END $$;
