-- Write outcomes. Each names its job and the token of its claim: an attempt whose claim is lost touches no row. Arrays are sorted
-- by id, so that rows are locked in that order. `_outcomes` (type `outcome`, as JSON) are null where an attempt completed. Returns the
-- tokens that were written (two attempts of one job may end together, and only one has the claim), and the jobs that may be claimed now:
-- those given back, and the next heads of the keys that were let go. An operator who asked for a job's end while it ran gets it when the attempt
-- did not end the job by itself. `_followers`: what was claimed in a run (_chapter).
CREATE FUNCTION asyncjobs.ack(
    _ids bigint[], _tokens bigint[], _outcomes text[], _results text[], _max_errors integer, _followers bigint[] DEFAULT NULL,
    OUT written bigint[], OUT pending bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _asked bigint[];
    _uncounted bigint[];
    _dead bigint[]; _keyed bigint[]; _dedup bigint[]; _members bigint[]; _limited bigint[];
BEGIN
    IF _followers IS NOT NULL THEN
        PERFORM asyncjobs.keep_order(_ids, _tokens, _outcomes, _followers);
    END IF;
    WITH acked AS (
        UPDATE asyncjobs.jobs AS j
        SET status = e.status,
            run_at = CASE WHEN e.status IN ('failed', 'scheduled') THEN _now + make_interval(secs => coalesce(s.delay, 0)) ELSE j.run_at END,
            place = CASE WHEN e.status = 'pending' THEN nextval('asyncjobs.place_seq') ELSE j.place END,
            attempts = CASE WHEN s.refund THEN greatest(j.attempts - 1, 0) ELSE j.attempts END,
            snoozes = CASE WHEN s.snooze THEN j.snoozes + 1 ELSE j.snoozes END,
            -- (an attempt that ended clears its job of what was lost; not one that was given back)
            losses = CASE WHEN s.refund AND s.snooze IS NOT TRUE THEN j.losses ELSE 0 END,
            suspicion = CASE WHEN s.refund AND s.snooze IS NOT TRUE THEN j.suspicion ELSE 0 END,
            completed_at = CASE WHEN e.status IN ('completed', 'dead', 'cancelled') THEN _now END,
            result = o.result::jsonb, result_dropped = s.dropped, error_message = s.message, progress = coalesce(s.progress, j.progress),
            last_error = coalesce(s.error ->> 'message', j.last_error),
            last_error_at = CASE WHEN s.error IS NULL THEN j.last_error_at ELSE _now END,
            errors = CASE WHEN s.error IS NULL THEN j.errors ELSE asyncjobs.with_error(j.errors, e.entry, _max_errors) END,
            payload = CASE WHEN s.empties AND e.status = 'completed' THEN '{}' ELSE j.payload END, runner_id = NULL, updated_at = _now
        FROM unnest(_ids, _tokens, _outcomes, _results) AS o(id, token, outcome, result)
        CROSS JOIN LATERAL jsonb_populate_record(NULL::asyncjobs.outcome, o.outcome::jsonb) AS s
        CROSS JOIN LATERAL (SELECT coalesce(s.status, 'completed') AS status, s.error || jsonb_build_object('at', _now) AS entry) AS e
        WHERE j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token AND j.status = 'processing'
        RETURNING j.id, j.claim_token, j.status, j.serialization_key AS key, j.dedup_key, j.workflow_id, j.limit_key, j.requested_outcome AS request,
            s.refund AND s.unbegun IS NOT TRUE AS is_uncounted, j.status IN ('completed', 'dead', 'cancelled') AS is_final)
    SELECT array_agg(a.claim_token), array_agg(a.id) FILTER (
            WHERE a.status = 'pending' AND (a.request IS NULL OR (a.request = 'fail' AND NOT a.is_uncounted))),
        array_agg(a.id) FILTER (WHERE a.request IS NOT NULL AND NOT a.is_final),
        array_agg(a.id) FILTER (WHERE a.request IS NOT NULL AND a.is_uncounted), array_agg(a.id) FILTER (WHERE a.status = 'dead'),
        array_agg(a.id) FILTER (WHERE a.key IS NOT NULL AND a.is_final), array_agg(a.id) FILTER (WHERE a.dedup_key IS NOT NULL AND a.is_final),
        array_agg(a.id) FILTER (WHERE a.workflow_id IS NOT NULL AND (a.is_final OR a.request IS NOT NULL)),
        array_agg(a.id) FILTER (WHERE a.limit_key IS NOT NULL)
    INTO written, pending, _asked, _uncounted, _dead, _keyed, _dedup, _members, _limited FROM acked AS a;
    IF _asked IS NOT NULL THEN
        SELECT _dead || o.dead, _keyed || o.ended_keyed, _dedup || o.ended_dedup INTO _dead, _keyed, _dedup
        FROM asyncjobs.obey_requests(_asked, _uncounted, _max_errors) AS o;
    END IF;
    pending := CASE WHEN pending IS NOT NULL THEN asyncjobs.without_paused(pending) END;
    IF _dead IS NOT NULL THEN
        PERFORM asyncjobs.bury(_dead);
    END IF;
    IF _dedup IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_dedup);
    END IF;
    IF _keyed IS NOT NULL THEN
        pending := pending || asyncjobs.let_keys_go(_keyed, coalesce(_dead, '{}'));
    END IF;
    pending := pending || CASE WHEN _members IS NOT NULL THEN asyncjobs.arrive(_members) END;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.open_limits(_limited, true);
    END IF;
    IF _followers IS NOT NULL THEN  -- when it is known who are heads now
        pending := asyncjobs.without_followers(pending, _followers, written);
    END IF;
END $$;
