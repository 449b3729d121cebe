-- One beat of a runner, and in the same call all that it has to say about leases: renew what it holds, take what is free, try to take
-- over what it saw unchanged, look at the rest. No row of `runners`: it was declared dead, and nothing is done.
--
-- No row is waited for: one that is locked is skipped, and the renewal or attempt counts as not made.
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
    OUT peers bigint[],             -- living runners that serve the same, this one among them
    OUT renewed text[], OUT lost text[], OUT acquired text[],
    OUT duties text[], OUT tokens bigint[], OUT renewals bigint[], OUT ages float8[])  -- the leases of others
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _holder text := _runner::text;
    _serves bigint;
BEGIN
    UPDATE asyncjobs.runners AS r SET beat = r.beat + 1, beat_at = _now, troubles = _troubles, session = pg_backend_pid(),
        stopped_at = CASE WHEN _stops THEN coalesce(r.stopped_at, _now) END
    WHERE r.id = _runner RETURNING r.beat, r.serves INTO beat, _serves;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*), count(*) FILTER (WHERE r.id < _runner AND r.beat_at > _now - _fresh AND r.stopped_at IS NULL AND NOT EXISTS (
        SELECT FROM asyncjobs.background_job_leases AS l WHERE l.held_by_worker_id = r.id::text)),
        array_agg(r.id) FILTER (WHERE r.serves = _serves AND r.beat_at > _now - _fresh AND r.stopped_at IS NULL)
    INTO runners, rank, peers FROM asyncjobs.runners AS r;

    SELECT r.renewed, r.lost INTO renewed, lost FROM asyncjobs.renew_leases(_holder, _held, _tokens, _reports) AS r;
    IF EXISTS (SELECT FROM unnest(_served) AS s(duty) WHERE NOT EXISTS (
            SELECT FROM asyncjobs.background_job_leases AS l WHERE l.job_name = s.duty)) THEN
        INSERT INTO asyncjobs.background_job_leases AS l (job_name)
        SELECT s.duty FROM unnest(_served) AS s(duty) ORDER BY s.duty ON CONFLICT (job_name) DO NOTHING;
    END IF;
    acquired := CASE WHEN _may_take THEN asyncjobs.take_leases(
        _holder, _held, _served, _new_tokens, _tried, _tried_tokens, _tried_renewals, _tried_long, _expiry) ELSE '{}' END;

    SELECT array_agg(l.job_name), array_agg(l.token), array_agg(l.renewals), array_agg(extract(epoch FROM _now - l.heartbeat_at)::float8)
    INTO duties, tokens, renewals, ages FROM asyncjobs.background_job_leases AS l
    WHERE l.job_name = ANY (_served) AND l.held_by_worker_id <> 'none' AND l.held_by_worker_id <> _holder;
END $$;
