-- Rescue: what runners that are gone still held is taken back.

-- Every runner's beat, and whether a job names a runner that does not exist: all that a rescuer has to know, in one statement. The
-- jobs are looked for in the gaps between the ids of the runners, so that neither jobs in flight are read nor the dead entries
-- that acks leave in the index under the ids of living runners: the cost is one descent per runner.
CREATE FUNCTION asyncjobs.look_at_runners(OUT ids bigint[], OUT beats bigint[], OUT orphans boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT coalesce(array_agg(r.id ORDER BY r.id), '{}'), coalesce(array_agg(r.beat ORDER BY r.id), '{}') INTO ids, beats
    FROM asyncjobs.runners AS r;
    orphans := EXISTS (SELECT FROM asyncjobs.orphans(1));
END $$;

-- At most `_limit` jobs that name a runner that does not exist. One snapshot sees both: a claim is visible only with its runner.
CREATE FUNCTION asyncjobs.orphans(_limit integer) RETURNS TABLE (id bigint, runner_id bigint, claim_token bigint, status text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH alive AS MATERIALIZED (SELECT r.id FROM asyncjobs.runners AS r),
    gaps AS (
        SELECT lag(a.id, 1, -9223372036854775808) OVER (ORDER BY a.id) AS below, a.id AS above FROM alive AS a
        UNION ALL
        SELECT coalesce(max(a.id), -9223372036854775808), 9223372036854775807 FROM alive AS a)
    SELECT o.id, o.runner_id, o.claim_token, o.status FROM gaps AS g CROSS JOIN LATERAL (
        SELECT j.id, j.runner_id, j.claim_token, j.status FROM asyncjobs.jobs AS j
        WHERE j.runner_id > g.below AND j.runner_id < g.above LIMIT _limit) AS o
    LIMIT _limit;
END $$;

-- Who is to blame for the ends of these runners: the one job that was on probation there, or the only one that it had; 0 for nobody. It
-- is asked when the first batch of a runner's jobs is taken back, and stands: afterwards they are not all there.
CREATE FUNCTION asyncjobs.blame(_runners bigint[]) RETURNS TABLE (runner_id bigint, job_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT r.id, coalesce((SELECT max(f.blamed) FROM asyncjobs.former_runners AS f WHERE f.id = r.id), (
            SELECT CASE WHEN count(1) = 1 OR count(1) FILTER (WHERE j.suspicion > 0) = 1
                        THEN coalesce(max(j.id) FILTER (WHERE j.suspicion > 0), max(j.id)) ELSE 0 END
            FROM asyncjobs.jobs AS j WHERE j.runner_id = r.id AND j.status = 'processing')) AS blamed
        FROM unnest(_runners) AS r(id)),
    noted AS (
        UPDATE asyncjobs.former_runners AS f SET blamed = a.blamed FROM asked AS a WHERE f.id = a.id AND f.blamed IS NULL)
    SELECT a.id, a.blamed FROM asked AS a;
END $$;

-- What becomes of jobs that were lost, by the rules in `model/probation.py`: the same as `judge` there. `_blamed`: by runner.
CREATE FUNCTION asyncjobs.judge(_ids bigint[], _runners bigint[], _blamed bigint[])
RETURNS TABLE (id bigint, attempts integer, losses integer, suspicion integer, lost_with bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id,
        CASE w.who WHEN 'this' THEN least(j.attempts + least(greatest(j.losses - 1, 0), 5), greatest(j.attempts, j.max_attempts))
                   WHEN 'other' THEN j.attempts - (j.losses > 0)::integer
                   ELSE j.attempts - (j.losses BETWEEN 1 AND 5)::integer END,
        CASE w.who WHEN 'this' THEN 1 WHEN 'other' THEN greatest(j.losses, 1) ELSE least(j.losses + 1, 32767) END::integer,
        CASE w.who WHEN 'this' THEN greatest(j.suspicion, (j.losses > 0 AND j.outlived = 0)::integer)
                   WHEN 'other' THEN 0
                   ELSE CASE j.losses WHEN 0 THEN 0 WHEN 1 THEN (j.outlived = 0)::integer
                                      ELSE least(greatest(j.outlived + 1, j.losses), 5) END END::integer,
        CASE w.who WHEN 'nobody' THEN j.runner_id ELSE j.lost_with END
    FROM asyncjobs.jobs AS j LEFT JOIN unnest(_runners, _blamed) AS b(runner_id, job_id) ON b.runner_id = j.runner_id
    CROSS JOIN LATERAL (SELECT CASE coalesce(b.job_id, 0) WHEN 0 THEN 'nobody' WHEN j.id THEN 'this' ELSE 'other' END) AS w(who)
    WHERE j.id = ANY (_ids);
END $$;

-- Clear the suspects that were lost together with jobs that were found to be to blame. Rows that others hold are left suspect.
CREATE FUNCTION asyncjobs.clear_suspects(_blamed bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _lost_with bigint[] := ARRAY(SELECT j.lost_with FROM asyncjobs.jobs AS j WHERE j.id = ANY (_blamed) AND j.lost_with IS NOT NULL);
    _ids bigint[];
BEGIN
    IF cardinality(_lost_with) = 0 THEN
        RETURN NULL;
    END IF;
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.queue = ANY (ARRAY(SELECT DISTINCT q.queue FROM asyncjobs.runners AS r CROSS JOIN unnest(r.queues) AS q(queue)))
          AND j.status = 'pending' AND j.suspicion > 0 AND j.lost_with = ANY (_lost_with)
        ORDER BY j.id + 0 FOR UPDATE SKIP LOCKED);
    UPDATE asyncjobs.jobs AS j SET suspicion = 0, losses = 1 WHERE j.id = ANY (_ids);
    RETURN _ids;
END $$;

-- What runners say of jobs that were lost before, and run again: the marks that they have outlived, and whether they are on probation no
-- more. A handler may hold its row for long (`ctx.complete`): that one is suspected once more should it be lost.
CREATE FUNCTION asyncjobs.outlive(_ids bigint[], _tokens bigint[], _outlived integer[], _cleared boolean[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j SET outlived = o.outlived, suspicion = CASE WHEN o.cleared THEN 0 ELSE j.suspicion END
    FROM (SELECT l.id FROM asyncjobs.jobs AS l WHERE l.id = ANY (_ids) ORDER BY l.id + 0 FOR UPDATE SKIP LOCKED) AS free
    JOIN unnest(_ids, _tokens, _outlived, _cleared) AS o(id, token, outlived, cleared) ON o.id = free.id
    WHERE j.id = ANY (ARRAY[free.id]) AND j.claim_token = o.token AND j.status = 'processing';
END $$;

-- Take back at most `_batch` jobs from runners that are gone. Each is due at once; what that costs it `judge` says. After the last attempt,
-- or when that was asked for, it ends instead. Run it in a transaction of its own, *after* the one that deleted the runners.
--
-- A runner that stopped by itself was not killed by what it still ran: those jobs are given back with their attempts, and nothing is said of
-- them. It is what that runner would have written if its handlers had ended.
--
-- The candidates' ids and tokens are read first and compared again under the row's lock, in a new statement: a job that was rescued
-- and claimed anew meanwhile, by a runner that is younger than our first snapshot, has another token by then.
CREATE FUNCTION asyncjobs.rescue(
    _batch integer, _max_errors integer,
    OUT rescued bigint[],
    OUT dead bigint[],       -- of these, ended for good
    OUT cancelled bigint[],
    OUT given_back bigint[], -- of runners that stopped by themselves; not among the rescued
    OUT queues text[],       -- where jobs became pending
    OUT types text[],        -- of the rescued, for the roll-ups
    OUT statuses text[],     -- and what the lost attempt made of them
    OUT more boolean)        -- the batch was full
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _candidates bigint[];
    _tokens bigint[];
    _others bigint[];
    _ids bigint[];
    _ending bigint[];
    _pending bigint[];
    _runners bigint[];
    _blamed bigint[];  -- of each, or 0
    _id bigint;
BEGIN
    SELECT array_agg(o.id) FILTER (WHERE o.status = 'processing'), array_agg(o.claim_token) FILTER (WHERE o.status = 'processing'),
           array_agg(o.id) FILTER (WHERE o.status <> 'processing')
    INTO _candidates, _tokens, _others FROM asyncjobs.orphans(_batch * 10) AS o;

    _ids := ARRAY(
        SELECT j.id FROM unnest(_candidates, _tokens) AS c(id, token) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[c.id]) AND j.claim_token = c.token
        WHERE j.status = 'processing' ORDER BY c.id LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    given_back := '{}';
    FOR _id IN
        SELECT j.id FROM asyncjobs.jobs AS j JOIN asyncjobs.former_runners AS f ON f.id = j.runner_id
        WHERE j.id = ANY (_ids) AND f.stopped_at IS NOT NULL ORDER BY j.id
    LOOP
        _ids := array_remove(_ids, _id);
        BEGIN
            _pending := _pending || asyncjobs.give_back_stopped(_id, _max_errors);
            given_back := given_back || _id;
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- as below
        END;
    END LOOP;
    SELECT array_agg(b.runner_id), array_agg(b.job_id) INTO _runners, _blamed FROM asyncjobs.blame(
        ARRAY(SELECT DISTINCT j.runner_id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids))) AS b;
    -- Jobs that end and thereby free a dedup key may have to wait for whoever looks at it: each by itself, after all others.
    _ending := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.dedup_key IS NOT NULL
          AND (j.attempts >= j.max_attempts OR j.id = ANY (_blamed) OR j.requested_outcome IN ('cancel', 'dead')) ORDER BY j.id);
    rescued := ARRAY(SELECT u.id FROM unnest(_ids) AS u(id) WHERE u.id <> ALL (_ending));
    _pending := _pending || asyncjobs.fail_lost(rescued, _runners, _blamed, _max_errors);
    FOREACH _id IN ARRAY _ending LOOP
        BEGIN
            _pending := _pending || asyncjobs.fail_lost(ARRAY[_id], _runners, _blamed, _max_errors);
            rescued := rescued || _id;
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- a stranger's transaction holds it: the job is as before, and an orphan of the next pass
        END;
    END LOOP;
    _pending := _pending || asyncjobs.clear_suspects(_blamed);
    FOREACH _id IN ARRAY coalesce(_others, '{}') LOOP
        BEGIN
            _pending := _pending || asyncjobs.settle_orphan(_id);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;

    dead := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued) AND j.status = 'dead');
    cancelled := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued) AND j.status = 'cancelled');
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending) AND j.status = 'pending');
    SELECT coalesce(array_agg(j.type), '{}'),
        coalesce(array_agg(CASE WHEN j.status IN ('dead', 'cancelled') THEN j.status ELSE 'failed' END), '{}')
    INTO types, statuses FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued);
    more := cardinality(rescued) + cardinality(given_back) >= _batch;
END $$;

-- Give back, with its attempt, a job (processing, and locked) that a runner left which had stopped by itself. The token goes, as in
-- `fail_lost`. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.give_back_stopped(_id bigint, _max_errors integer) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _token bigint := (SELECT j.claim_token FROM asyncjobs.jobs AS j WHERE j.id = _id);
    _pending bigint[];
BEGIN
    SELECT a.pending INTO _pending FROM asyncjobs.ack(
        ARRAY[_id], ARRAY[_token], ARRAY['pending'], ARRAY[0.0], ARRAY[true], ARRAY[false], NULL, NULL, NULL, NULL, _max_errors,
        NULL, NULL) AS a;
    UPDATE asyncjobs.jobs AS j SET claim_token = NULL, started_at = NULL WHERE j.id = _id AND j.status IN ('pending', 'paused');
    RETURN _pending;
END $$;

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
        RETURNING j.id, j.status)
    SELECT array_agg(w.id) FILTER (WHERE w.status = 'pending'), array_agg(w.id) FILTER (WHERE w.status = 'dead'),
           array_agg(w.id) FILTER (WHERE w.status IN ('dead', 'cancelled'))
    INTO _pending, _dead, _ended FROM written AS w;
    IF _dead IS NOT NULL THEN
        PERFORM asyncjobs.bury(_dead);
    END IF;
    IF _ended IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_ended);
        _pending := _pending || asyncjobs.release_keys(_ended);
    END IF;
    RETURN _pending;
END $$;

-- A row that is not processing but names a runner that is gone. It ended inside its handler's transaction, and the runner died
-- before it settled the job: that is done here. Or an operator's SQL took it back and left the name, which is taken off.
CREATE FUNCTION asyncjobs.settle_orphan(_id bigint) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
BEGIN
    SELECT j.status INTO _status FROM asyncjobs.jobs AS j
    WHERE j.id = _id AND j.status <> 'processing' AND j.runner_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = j.runner_id)
    FOR UPDATE OF j SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL WHERE j.id = _id;
    IF _status IN ('completed', 'dead', 'cancelled') THEN
        PERFORM asyncjobs.end_dedup(ARRAY[_id]);
        RETURN asyncjobs.release_keys(ARRAY[_id]);
    END IF;
    RETURN NULL;
END $$;
