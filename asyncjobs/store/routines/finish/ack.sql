-- Write outcomes. Each names its job and the token of its claim: an attempt whose claim is lost touches no row. Arrays are sorted
-- by id, so that rows are locked in that order. Returns the tokens that were written (two attempts of one job may end together, and
-- only one has the claim), and the jobs that may be claimed now: those given back, and the next heads of the keys that were let go.
-- Whoever asked for a job's end while it ran gets it when the attempt did not end the job by itself. `_refunds` does not count an
-- attempt; one that had begun (`_unbegun` is not true) counts all the same when its job ends at somebody's request. `_progress`: how far
-- it was, where that is not written yet.
CREATE FUNCTION asyncjobs.ack(
    _ids bigint[], _tokens bigint[], _statuses text[], _delays float8[], _refunds boolean[], _snoozes boolean[], _results text[],
    _dropped text[], _messages text[], _errors text[], _max_errors integer, _unbegun boolean[], _progress text[],
    OUT written bigint[], OUT pending bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _asked bigint[];
    _uncounted bigint[];
    _dead bigint[];
    _ended_keyed bigint[];
    _ended_dedup bigint[];
BEGIN
    WITH acked AS (
        UPDATE asyncjobs.jobs AS j
        SET status = o.status,
            run_at = CASE WHEN o.status IN ('failed', 'scheduled') THEN _now + make_interval(secs => coalesce(o.delay, 0))
                          ELSE j.run_at END,
            place = CASE WHEN o.status = 'pending' THEN nextval('asyncjobs.place_seq') ELSE j.place END,
            attempts = CASE WHEN o.refund THEN greatest(j.attempts - 1, 0) ELSE j.attempts END,
            snoozes = CASE WHEN o.snooze THEN j.snoozes + 1 ELSE j.snoozes END,
            -- (an attempt that ended clears its job of what was lost; not one that was given back)
            losses = CASE WHEN o.refund AND o.snooze IS NOT TRUE THEN j.losses ELSE 0 END,
            suspicion = CASE WHEN o.refund AND o.snooze IS NOT TRUE THEN j.suspicion ELSE 0 END,
            completed_at = CASE WHEN o.status IN ('completed', 'dead', 'cancelled') THEN _now END,
            result = o.result::jsonb, result_dropped = o.dropped, error_message = o.message,
            progress = coalesce(o.progress::jsonb, j.progress),
            last_error = coalesce(o.error::jsonb ->> 'message', j.last_error),
            last_error_at = CASE WHEN o.error IS NULL THEN j.last_error_at ELSE _now END,
            errors = CASE WHEN o.error IS NULL THEN j.errors ELSE asyncjobs.with_error(j.errors, e.entry, _max_errors) END,
            runner_id = NULL, updated_at = _now
        FROM unnest(_ids, _tokens, _statuses, _delays, _refunds, _snoozes, _results, _dropped, _messages, _errors, _unbegun, _progress)
            AS o(id, token, status, delay, refund, snooze, result, dropped, message, error, unbegun, progress)
        CROSS JOIN LATERAL (SELECT o.error::jsonb || jsonb_build_object('at', _now) AS entry) AS e
        WHERE j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token AND j.status = 'processing'
        RETURNING j.id, j.claim_token, j.status, j.serialization_key, j.dedup_key, j.requested_outcome,
            o.refund AND o.unbegun IS NOT TRUE AS is_uncounted)
    SELECT array_agg(a.claim_token), array_agg(a.id) FILTER (WHERE a.status = 'pending' AND a.requested_outcome IS NULL),
        array_agg(a.id) FILTER (WHERE a.requested_outcome IS NOT NULL AND a.status NOT IN ('completed', 'dead', 'cancelled')),
        array_agg(a.id) FILTER (WHERE a.requested_outcome IS NOT NULL AND a.is_uncounted),
        array_agg(a.id) FILTER (WHERE a.status = 'dead'),
        array_agg(a.id) FILTER (WHERE a.serialization_key IS NOT NULL AND a.status IN ('completed', 'dead', 'cancelled')),
        array_agg(a.id) FILTER (WHERE a.dedup_key IS NOT NULL AND a.status IN ('completed', 'dead', 'cancelled'))
    INTO written, pending, _asked, _uncounted, _dead, _ended_keyed, _ended_dedup FROM acked AS a;

    IF _asked IS NOT NULL THEN
        SELECT _dead || o.dead, _ended_keyed || o.ended_keyed, _ended_dedup || o.ended_dedup
        INTO _dead, _ended_keyed, _ended_dedup FROM asyncjobs.obey_requests(_asked, _uncounted, _max_errors) AS o;
    END IF;

    IF pending IS NOT NULL THEN
        pending := asyncjobs.without_paused(pending);
    END IF;
    IF _dead IS NOT NULL THEN
        PERFORM asyncjobs.bury(_dead);
    END IF;
    IF _ended_dedup IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_ended_dedup);
    END IF;
    IF _ended_keyed IS NOT NULL THEN
        pending := pending || asyncjobs.release_keys(_ended_keyed, coalesce(_dead, '{}'));
    END IF;
END $$;
