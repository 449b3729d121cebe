-- Apply what was asked for while these jobs ran: their attempts were acked just now, in this transaction, and did not end them. An
-- attempt that had begun (`_uncounted`: it was given back, or snoozed) is charged after all: what ran counts; one that was to be failed
-- is due at once. A claim that never started has no attempt that could fail: then the request is over, and the job as it was given back.
CREATE FUNCTION asyncjobs.obey_requests(_ids bigint[], _uncounted bigint[], _max_errors integer, OUT dead bigint[], OUT ended_keyed bigint[], OUT ended_dedup bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    WITH asked AS (
        SELECT j.id, j.attempts + c.charge AS attempts, j.requested_outcome = 'fail' AND c.charge = 1 AS is_failed,
            CASE WHEN j.requested_outcome = 'cancel' THEN 'cancelled'
                 WHEN j.requested_outcome = 'dead' THEN 'dead'
                 WHEN c.charge = 0 THEN j.status
                 WHEN j.attempts + 1 < j.max_attempts THEN 'failed'
                 ELSE 'dead' END AS status,
            CASE WHEN j.requested_outcome = 'dead' OR (j.requested_outcome = 'fail' AND c.charge = 1) THEN
                jsonb_build_object('at', _now, 'attempt', j.attempts + c.charge, 'message', j.request_message,
                    'type', CASE j.requested_outcome WHEN 'dead' THEN 'Killed' ELSE 'FailedByHand' END)
            END AS entry
        FROM asyncjobs.jobs AS j CROSS JOIN LATERAL (
            SELECT (j.id = ANY (coalesce(_uncounted, '{}')))::integer AS charge) AS c
        WHERE j.id = ANY (_ids)),
    obeyed AS (
        UPDATE asyncjobs.jobs AS j
        SET status = a.status, attempts = a.attempts,
            run_at = CASE WHEN a.is_failed THEN _now ELSE j.run_at END,
            completed_at = CASE WHEN a.status IN ('dead', 'cancelled') THEN _now END,
            error_message = CASE WHEN a.status IN ('dead', 'cancelled', 'failed') THEN coalesce(j.request_message, j.error_message) END,
            last_error = CASE WHEN a.is_failed THEN j.request_message ELSE j.last_error END,
            last_error_at = CASE WHEN a.is_failed THEN _now ELSE j.last_error_at END,
            errors = CASE WHEN a.entry IS NULL THEN j.errors ELSE asyncjobs.with_error(j.errors, a.entry, _max_errors) END,
            requested_outcome = CASE WHEN a.status IN ('dead', 'cancelled') THEN j.requested_outcome END,
            request_message = CASE WHEN a.status IN ('dead', 'cancelled') THEN j.request_message END,
            cancel_requested_at = CASE WHEN a.status IN ('dead', 'cancelled') THEN j.cancel_requested_at END
        FROM asked AS a WHERE j.id = ANY (ARRAY[a.id])
        RETURNING j.id, j.status, j.serialization_key, j.dedup_key)
    SELECT array_agg(o.id) FILTER (WHERE o.status = 'dead'),
        array_agg(o.id) FILTER (WHERE o.status IN ('dead', 'cancelled') AND o.serialization_key IS NOT NULL),
        array_agg(o.id) FILTER (WHERE o.status IN ('dead', 'cancelled') AND o.dedup_key IS NOT NULL)
    INTO dead, ended_keyed, ended_dedup FROM obeyed AS o;
END $$;
