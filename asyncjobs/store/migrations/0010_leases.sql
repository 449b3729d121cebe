-- Leases of duties, who can do them, and pruning.

-- Which duties a runner can do: a lease is handed over to one who can.
ALTER TABLE asyncjobs.runners ADD COLUMN duties text[] NOT NULL DEFAULT '{}';
ALTER TABLE asyncjobs.former_runners ADD COLUMN duties text[] NOT NULL DEFAULT '{}';

-- Whether the runner holds the lease in this term; and if so, holds its row until the end of the transaction: renewals pass, nobody
-- takes over. A process that is stopped in the middle of the transaction loses its connection before it could block for long.
CREATE FUNCTION asyncjobs.hold_lease(_duty text, _holder text, _token bigint, _idle interval) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM asyncjobs.background_job_leases AS l
    WHERE l.job_name = _duty AND l.held_by_worker_id = _holder AND l.token = _token FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', (extract(epoch FROM _idle) * 1000)::bigint::text, true);
    RETURN true;
END $$;

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

-- What a holder reports, as instants of the server's clock.
CREATE FUNCTION asyncjobs.lease_report(_report jsonb, _now timestamptz) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _report IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'last_run', _now - make_interval(secs => (_report ->> 'run_age')::float8),
        'last_pass_at', _now - make_interval(secs => (_report ->> 'pass_age')::float8),
        'items', _report -> 'items', 'errors', _report -> 'errors', 'duration', _report -> 'duration'));
END $$;

-- Free leases by holder and token. One living runner that can do them is named: it is woken, and nobody else.
CREATE FUNCTION asyncjobs.release_leases(_runner bigint, _duties text[], _tokens bigint[], _reports jsonb, _fresh interval,
    OUT released text[], OUT successor bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT l.job_name FROM unnest(_duties, _tokens) AS h(duty, token) JOIN asyncjobs.background_job_leases AS l ON l.job_name = h.duty
        WHERE l.held_by_worker_id = _runner::text AND l.token = h.token ORDER BY l.job_name FOR UPDATE OF l),
    freed AS (
        UPDATE asyncjobs.background_job_leases AS l SET held_by_worker_id = 'none',
            metadata = l.metadata || asyncjobs.lease_report(_reports -> l.job_name, _now)
        FROM mine AS m WHERE l.job_name = m.job_name RETURNING l.job_name)
    SELECT coalesce(array_agg(f.job_name), '{}') INTO released FROM freed AS f;
    SELECT r.id INTO successor FROM asyncjobs.runners AS r
    WHERE r.id <> _runner AND r.beat_at > _now - _fresh AND r.stopped_at IS NULL AND r.duties && released
    ORDER BY cardinality(ARRAY(SELECT d.duty FROM unnest(r.duties) AS d(duty) WHERE d.duty = ANY (released))) DESC, r.id LIMIT 1;
END $$;

-- A runner that stops on its own moves to the former ones, without a death, and frees what it holds, but for duties whose
-- passes have not ended. Twice is the same as once.
CREATE FUNCTION asyncjobs.leave_runner(_runner bigint, _kept text[], _fresh interval, OUT successor bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _duties text[];
    _tokens bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.runners AS r WHERE r.id = _runner
        RETURNING r.id, r.started_at, r.stopped_at, r.host, r.pid, r.version, r.queues, r.types, r.versions, r.duties)
    INSERT INTO asyncjobs.former_runners (id, started_at, stopped_at, host, pid, version, queues, types, versions, duties)
    SELECT g.id, g.started_at, coalesce(g.stopped_at, asyncjobs.clock()), g.host, g.pid, g.version, g.queues, g.types, g.versions, g.duties
    FROM gone AS g;
    SELECT array_agg(l.job_name), array_agg(l.token) INTO _duties, _tokens FROM asyncjobs.background_job_leases AS l
    WHERE l.held_by_worker_id = _runner::text AND l.job_name <> ALL (_kept);
    IF _duties IS NOT NULL THEN
        SELECT l.successor INTO successor FROM asyncjobs.release_leases(_runner, _duties, _tokens, '{}', _fresh) AS l;
    END IF;
END $$;

-- What pruning looks for: ended jobs of each type in the order in which they ended, and letters that somebody has acknowledged.
-- The first costs an ack 75 bytes of WAL (794 instead of 719) and no time that can be measured: 144 and 141 us per job claimed and
-- acked in batches of 10, 67 and 69 us in batches of 50. With it 500,000 jobs are pruned in 17 s, in statements of 43 ms at most.
CREATE INDEX jobs_ended ON asyncjobs.jobs (type, completed_at) WHERE status IN ('completed', 'cancelled');
CREATE INDEX dead_letter_jobs_acknowledged ON asyncjobs.dead_letter_jobs (acknowledged_at) WHERE acknowledged;

-- Ended jobs that have been kept for long enough, at most `_batch` of each type. Rows that somebody holds are left alone, and so are jobs
-- whose key has not let them go: the head of a halted key, or one that its runner has not settled yet.
CREATE FUNCTION asyncjobs.prune_jobs(
    _batch integer, _completed interval, _cancelled interval, _types text[], _keeps interval[],  -- other times for these types
    OUT jobs integer, OUT more boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    _now timestamptz := asyncjobs.clock();
    _type text;
    _keep interval;
    _count integer;
BEGIN
    jobs := 0; more := false;
    SELECT j.type INTO _type FROM asyncjobs.jobs AS j WHERE j.status IN ('completed', 'cancelled') ORDER BY j.type LIMIT 1;
    WHILE _type IS NOT NULL LOOP
        _keep := _keeps[array_position(_types, _type)];
        _count := asyncjobs.delete_jobs(ARRAY(
            SELECT o.id FROM (
                SELECT j.id FROM asyncjobs.jobs AS j
                WHERE j.type = _type AND j.status IN ('completed', 'cancelled')
                  AND j.completed_at < _now - least(coalesce(_keep, _completed), coalesce(_keep, _cancelled))
                  AND j.completed_at < _now - CASE WHEN _keep IS NOT NULL THEN _keep WHEN j.status = 'completed' THEN _completed ELSE _cancelled END
                  AND j.runner_id IS NULL AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = j.id)
                ORDER BY j.completed_at LIMIT _batch) AS o ORDER BY o.id));
        jobs := jobs + _count;
        more := more OR _count >= _batch;
        SELECT j.type INTO _type FROM asyncjobs.jobs AS j
        WHERE j.status IN ('completed', 'cancelled') AND j.type > _type ORDER BY j.type LIMIT 1;
    END LOOP;
END $$;

-- Acknowledged dead letters that have been kept for long enough, at most `_batch`, and the dead jobs they are of.
CREATE FUNCTION asyncjobs.prune_letters(_batch integer, _letters interval, OUT jobs integer, OUT letters integer) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    _ids bigint[];
    _letter_ids bigint[];
BEGIN
    jobs := 0; letters := 0;
    SELECT array_agg(o.id), array_agg(o.job_id ORDER BY o.job_id) INTO _letter_ids, _ids FROM (
        SELECT d.id, d.job_id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.acknowledged AND d.acknowledged_at < asyncjobs.clock() - _letters
          AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = d.job_id)
        ORDER BY d.acknowledged_at LIMIT _batch) AS o;
    IF _letter_ids IS NULL THEN
        RETURN;
    END IF;
    -- A job that was started over lives on without this letter; one that has another letter waits for that one's time.
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status = 'dead' AND NOT EXISTS (
            SELECT FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = j.id AND d.id <> ALL (_letter_ids)) ORDER BY j.id);
    jobs := asyncjobs.delete_jobs(_ids);
    WITH ours AS MATERIALIZED (  -- in the order of all who take several; those that somebody has are left to the next pass
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_letter_ids) AND NOT EXISTS (
            SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.id = d.job_id)
        ORDER BY d.id FOR UPDATE OF d SKIP LOCKED),
    gone AS (
        DELETE FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (ARRAY(SELECT o.id FROM ours AS o)) RETURNING 1)
    SELECT count(*) INTO letters FROM gone AS g;
END $$;

CREATE FUNCTION asyncjobs.prune_runners(_batch integer, _runners interval) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count integer;
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.former_runners AS f WHERE f.id = ANY (ARRAY(
            SELECT o.id FROM asyncjobs.former_runners AS o WHERE o.ended_at < asyncjobs.clock() - _runners
            ORDER BY o.ended_at LIMIT _batch FOR UPDATE SKIP LOCKED)) RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;

CREATE FUNCTION asyncjobs.prune_dedup_keys(_batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _count integer;
BEGIN
    WITH gone AS (
        DELETE FROM asyncjobs.dedup_keys AS k WHERE k.ctid = ANY (ARRAY(
            SELECT o.ctid FROM asyncjobs.dedup_keys AS o WHERE NOT o.live AND o.expires_at < _now ORDER BY o.expires_at LIMIT _batch
            FOR UPDATE SKIP LOCKED)) AND NOT k.live AND k.expires_at < _now RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;

-- Delete at most `_batch` rows of each kind that have been kept for long enough. A kind that cannot be pruned (a stranger's trigger, a
-- replicated table that lacks an identity) keeps no other from it: `failures` says which and why. `_token` null: without a lease; else
-- nothing is done when that term is over (`held` is false).
CREATE FUNCTION asyncjobs.prune(
    _duty text, _holder text, _token bigint, _batch integer,
    _completed interval, _cancelled interval, _letters interval, _runners interval, _types text[], _keeps interval[],
    OUT held boolean, OUT jobs integer, OUT letters integer, OUT runners integer, OUT dedup_keys integer, OUT more boolean,
    OUT failures text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _with_letters integer;
BEGIN
    held := _token IS NULL OR asyncjobs.hold_lease(_duty, _holder, _token, '4 seconds');
    jobs := 0; letters := 0; runners := 0; dedup_keys := 0; more := false; failures := '{}';
    IF NOT held THEN
        RETURN;
    END IF;
    BEGIN
        SELECT p.jobs, p.more INTO jobs, more FROM asyncjobs.prune_jobs(_batch, _completed, _cancelled, _types, _keeps) AS p;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('ended jobs: ' || SQLERRM);
    END;
    BEGIN
        SELECT p.jobs, p.letters INTO _with_letters, letters FROM asyncjobs.prune_letters(_batch, _letters) AS p;
        jobs := jobs + _with_letters;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('dead letters: ' || SQLERRM);
    END;
    BEGIN
        runners := asyncjobs.prune_runners(_batch, _runners);
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('former runners: ' || SQLERRM);
    END;
    BEGIN
        dedup_keys := asyncjobs.prune_dedup_keys(_batch);
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('dedup keys: ' || SQLERRM);
    END;
    more := more OR letters >= _batch OR runners >= _batch OR dedup_keys >= _batch;
END $$;

-- Delete these jobs, but for those that somebody holds or that are not final any more; returns how many.
CREATE FUNCTION asyncjobs.delete_jobs(_ids bigint[]) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked bigint[];
    _count integer;
BEGIN
    IF cardinality(_ids) = 0 THEN
        RETURN 0;
    END IF;
    _locked := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status IN ('completed', 'cancelled', 'dead')
        ORDER BY j.id FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM asyncjobs.jobs AS j WHERE j.id = ANY (_locked) RETURNING 1)
    SELECT count(*) INTO _count FROM gone AS g;
    RETURN _count;
END $$;
