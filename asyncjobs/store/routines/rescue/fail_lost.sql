-- Write that the attempts of these jobs (processing, and locked) failed because their runner was lost. The token goes: a late ack of
-- the lost runner, if it lives after all, touches no row. Returns the jobs that became pending, the next heads of keys among them.
CREATE FUNCTION asyncjobs.fail_lost(_ids bigint[], _runners bigint[], _blamed bigint[], _max_errors integer) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _pending bigint[];
    _dead bigint[];
    _ended bigint[];
    _members bigint[];
    _limited bigint[];
BEGIN
    WITH lost AS (
        SELECT j.id, v.attempts, v.losses, v.suspicion, v.lost_with, e.message,
            jsonb_build_object('attempt', j.attempts, 'at', _now, 'type', 'RunnerLost', 'message', e.message) AS error,
            CASE WHEN j.requested_outcome = 'cancel' THEN 'cancelled'
                 WHEN j.requested_outcome = 'dead' OR v.attempts >= j.max_attempts THEN 'dead'
                 WHEN asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused'
                 ELSE 'pending' END AS status
        FROM asyncjobs.judge(_ids, _runners, _blamed) AS v JOIN asyncjobs.jobs AS j ON j.id = v.id
        CROSS JOIN LATERAL (SELECT format('runner %s was lost during attempt %s of %s', j.runner_id, greatest(j.attempts, v.attempts), j.max_attempts)) AS e(message)),
    written AS (
        UPDATE asyncjobs.jobs AS j
        SET status = l.status,
            attempts = CASE WHEN l.status IN ('dead', 'cancelled') THEN greatest(l.attempts, j.attempts) ELSE l.attempts END,
            rescues = least(j.rescues, 2147483646) + 1, losses = l.losses,
            suspicion = l.suspicion, outlived = 0, lost_with = l.lost_with, claim_token = NULL, runner_id = NULL,
            started_at = CASE WHEN l.status IN ('dead', 'cancelled') THEN j.started_at END,
            place = CASE WHEN l.status IN ('dead', 'cancelled') THEN j.place ELSE nextval('asyncjobs.place_seq') END,
            run_at = CASE WHEN l.status IN ('dead', 'cancelled') THEN j.run_at ELSE _now END,
            completed_at = CASE WHEN l.status IN ('dead', 'cancelled') THEN _now END,
            error_message = CASE WHEN l.status IN ('dead', 'cancelled') THEN coalesce(j.request_message, l.message) END,
            last_error = l.message, last_error_at = _now,
            errors = asyncjobs.with_error(j.errors, l.error, _max_errors),
            requested_outcome = NULL, request_message = NULL, cancel_requested_at = NULL, updated_at = _now
        FROM lost AS l WHERE j.id = ANY (ARRAY[l.id])
        RETURNING j.id, j.status, j.workflow_id, j.limit_key)
    SELECT array_agg(w.id) FILTER (WHERE w.status = 'pending'), array_agg(w.id) FILTER (WHERE w.status = 'dead'),
           array_agg(w.id) FILTER (WHERE w.status IN ('dead', 'cancelled')),
           array_agg(w.id) FILTER (WHERE w.status IN ('dead', 'cancelled') AND w.workflow_id IS NOT NULL),
           array_agg(w.id) FILTER (WHERE w.limit_key IS NOT NULL)
    INTO _pending, _dead, _ended, _members, _limited FROM written AS w;
    IF _dead IS NOT NULL THEN
        PERFORM asyncjobs.bury(_dead);
    END IF;
    IF _ended IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_ended);
        _pending := _pending || asyncjobs.let_keys_go(_ended, coalesce(_dead, '{}'));
    END IF;
    IF _members IS NOT NULL THEN
        _pending := _pending || asyncjobs.arrive(_members);
    END IF;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.request_opening(_limited, true);
    END IF;
    RETURN _pending;
END $$;
