-- Claim at most `_limit` of these dependents, which nothing holds any more and which are locked: the call that let them go has slots for them. So
-- such a row is written once less, and no runner is told of it. Those that come before what stands behind (`_priority`, `_place`), from where the call's scan
-- starts: there is nothing before them that this scan would find. Neither one with a key or a limit, nor one whose time has not come.
CREATE FUNCTION asyncjobs.claim_released(
    _ids bigint[], _runner bigint, _queue text, _limit integer, _priority integer, _place bigint, _types text[], _token_base bigint, _token_seq bigint,
    _versions jsonb)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    RETURN QUERY
    UPDATE asyncjobs.jobs AS j
    SET status = 'processing', attempts = least(j.attempts, 2147483646) + 1, runner_id = _runner, error_message = NULL,
        started_at = greatest(_now, j.created_at), claim_token = (_token_base << 32) | ((_token_seq + p.number) & 4294967295),
        run_at = _now, scheduled_at = _now, start_before = _now + (j.start_before - j.run_at), updated_at = _now
    FROM (SELECT o.ctid, row_number() OVER (ORDER BY o.priority, o.place) AS number FROM asyncjobs.jobs AS o
          WHERE o.id = ANY (_ids) AND o.status || '' = 'blocked' AND o.queue = _queue AND o.run_at <= _now AND o.serialization_key IS NULL
            AND o.limit_key IS NULL AND o.suspicion = 0 AND (o.priority, o.place) <= (_priority, _place) AND o.type = ANY (_types)
            AND asyncjobs.can_run(_versions, o.type, o.version)
          ORDER BY o.priority, o.place LIMIT _limit) AS p
    WHERE j.ctid = p.ctid
    RETURNING (asyncjobs.claimed(asyncjobs.answer_kind(j.on_dead, j.workflow_id, j.limit_key COLLATE "default"), 1, j)).*;
END $$;
