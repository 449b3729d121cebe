-- One beat of a runner, and in the same call all that it has to say about leases: renew what it holds, take what is free, try to take
-- over what it saw unchanged, look at the rest. No row of `runners`: it was declared dead, and nothing is done.
--
-- No row is waited for: one that somebody holds is skipped, and the renewal or attempt counts as not made. A taker locks the row FOR
-- UPDATE before it writes, which a pass that holds it (FOR KEY SHARE) keeps out, and which keeps such a pass out: the UPDATE alone
-- changes no key, and would let it through with the old token. It compares again in a new statement, under the lock. What is free is
-- taken without having been observed, and so is what this runner holds without knowing it: the answer was lost.
CREATE FUNCTION asyncjobs.beat_with_leases(
    _runner bigint,
    _held text[], _tokens bigint[],
    _reports jsonb,                 -- duty -> {run_age, pass_age, items, errors, duration}
    _served text[], _new_tokens bigint[],   -- the duties to look at, and the tokens of terms that begin
    _may_take boolean,
    _tried text[], _tried_tokens bigint[], _tried_renewals bigint[], _tried_long boolean[],
    _expiry interval, _fresh interval,
    _troubles text[],               -- what is to be said of its parts
    _stops boolean,                 -- whether it stops
    OUT beat bigint, OUT runners integer,
    OUT rank integer,               -- how many living runners have a lower id, holders of a lease apart
    OUT renewed text[], OUT lost text[], OUT acquired text[],
    OUT duties text[], OUT tokens bigint[], OUT renewals bigint[], OUT ages float8[])  -- the leases of others
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _holder text := _runner::text;
    _free text[];
    _takes text[];
BEGIN
    UPDATE asyncjobs.runners AS r SET beat = r.beat + 1, beat_at = _now, troubles = _troubles,
        stopped_at = CASE WHEN _stops THEN coalesce(r.stopped_at, _now) END
    WHERE r.id = _runner RETURNING r.beat INTO beat;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*), count(*) FILTER (WHERE r.id < _runner AND r.beat_at > _now - _fresh AND r.stopped_at IS NULL AND NOT EXISTS (
        SELECT FROM asyncjobs.background_job_leases AS l WHERE l.held_by_worker_id = r.id::text))
    INTO runners, rank FROM asyncjobs.runners AS r;

    WITH mine AS MATERIALIZED (
        SELECT l.job_name FROM unnest(_held, _tokens) AS h(duty, token) JOIN asyncjobs.background_job_leases AS l ON l.job_name = h.duty
        WHERE l.held_by_worker_id = _holder AND l.token = h.token ORDER BY l.job_name FOR NO KEY UPDATE OF l SKIP LOCKED),
    kept AS (
        UPDATE asyncjobs.background_job_leases AS l SET renewals = l.renewals + 1, heartbeat_at = _now,
            metadata = l.metadata || asyncjobs.lease_report(_reports -> l.job_name, _now)
        FROM mine AS m WHERE l.job_name = m.job_name RETURNING l.job_name)
    SELECT coalesce(array_agg(k.job_name), '{}') INTO renewed FROM kept AS k;
    lost := ARRAY(
        SELECT h.duty FROM unnest(_held, _tokens) AS h(duty, token) WHERE h.duty <> ALL (renewed) AND NOT EXISTS (
            SELECT FROM asyncjobs.background_job_leases AS l
            WHERE l.job_name = h.duty AND l.held_by_worker_id = _holder AND l.token = h.token));

    IF EXISTS (SELECT FROM unnest(_served) AS s(duty) WHERE NOT EXISTS (
            SELECT FROM asyncjobs.background_job_leases AS l WHERE l.job_name = s.duty)) THEN
        INSERT INTO asyncjobs.background_job_leases AS l (job_name)
        SELECT s.duty FROM unnest(_served) AS s(duty) ORDER BY s.duty ON CONFLICT (job_name) DO NOTHING;
    END IF;
    acquired := '{}';
    IF _may_take THEN
        _free := ARRAY(
            SELECT l.job_name FROM asyncjobs.background_job_leases AS l
            WHERE l.job_name = ANY (_served) AND l.held_by_worker_id IN ('none', _holder) AND l.job_name <> ALL (_held)
            ORDER BY l.job_name FOR UPDATE OF l SKIP LOCKED);
        _takes := _free || ARRAY(
            SELECT l.job_name FROM unnest(_tried, _tried_tokens, _tried_renewals, _tried_long) AS t(duty, token, renewals, is_long)
            JOIN asyncjobs.background_job_leases AS l ON l.job_name = t.duty AND l.token = t.token AND l.renewals = t.renewals
            WHERE l.held_by_worker_id NOT IN ('none', _holder) AND (t.is_long OR l.heartbeat_at <= _now - _expiry)
            ORDER BY l.job_name FOR UPDATE OF l SKIP LOCKED);
        IF cardinality(_takes) > 0 THEN
            WITH taken AS (
                UPDATE asyncjobs.background_job_leases AS l
                SET held_by_worker_id = _holder, token = s.token, renewals = 0, lease_acquired_at = _now, heartbeat_at = _now,
                    metadata = l.metadata || jsonb_build_object('last_run', _now)
                FROM unnest(_served, _new_tokens) AS s(duty, token)
                WHERE l.job_name = s.duty AND l.job_name = ANY (_takes)
                  AND (l.held_by_worker_id IN ('none', _holder) OR EXISTS (
                      SELECT FROM unnest(_tried, _tried_tokens, _tried_renewals) AS t(duty, token, renewals)
                      WHERE t.duty = l.job_name AND t.token = l.token AND t.renewals = l.renewals))
                RETURNING l.job_name)
            SELECT array_agg(t.job_name) INTO acquired FROM taken AS t;
        END IF;
    END IF;

    SELECT array_agg(l.job_name), array_agg(l.token), array_agg(l.renewals), array_agg(extract(epoch FROM _now - l.heartbeat_at)::float8)
    INTO duties, tokens, renewals, ages FROM asyncjobs.background_job_leases AS l
    WHERE l.job_name = ANY (_served) AND l.held_by_worker_id <> 'none' AND l.held_by_worker_id <> _holder;
END $$;
