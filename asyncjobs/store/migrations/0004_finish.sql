-- finish: the acks of attempts that ended, the next heads of their keys, and new claims, in one round trip and one commit.

-- A job's history with one more entry, and without its oldest when it is full. What is no history (a stranger's hand) begins anew: a row
-- that no outcome could be written to would keep those beside it from being written, too. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.with_error(_errors jsonb, _entry jsonb, _most integer) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN pg_catalog.jsonb_typeof(_errors) <> 'array' THEN '[]'::jsonb || _entry
                  WHEN pg_catalog.jsonb_array_length(_errors) >= _most THEN (_errors - 0) || _entry
                  ELSE _errors || _entry END;

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
        pending := pending || asyncjobs.release_keys(_ended_keyed);
    END IF;
END $$;

-- Jobs that this transaction has just made pending: those of a paused type or key become paused, the others are returned. It is a
-- statement of its own since the one that made them pending may have waited for their rows (0002: look under the lock).
CREATE FUNCTION asyncjobs.without_paused(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _paused bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM asyncjobs.pauses) THEN
        RETURN _ids;
    END IF;
    WITH held AS (
        UPDATE asyncjobs.jobs AS j SET status = 'paused'
        WHERE j.id = ANY (_ids) AND j.status = 'pending' AND asyncjobs.is_paused(j.type, j.serialization_key) RETURNING j.id)
    SELECT array_agg(h.id) INTO _paused FROM held AS h;
    RETURN ARRAY(SELECT u.id FROM unnest(_ids) AS u(id) WHERE _paused IS NULL OR u.id <> ALL (_paused));
END $$;

-- Write the dead letters of jobs that just died. How often their work was requeued, or started over, goes on from letter to letter.
CREATE FUNCTION asyncjobs.bury(_ids bigint[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _rest bigint[] := _ids;
BEGIN
    LOOP
        WITH written AS (
            INSERT INTO asyncjobs.dead_letter_jobs AS l (job_id, original_job, error_message, error_details, died_at, requeue_count)
            SELECT j.id,
                to_jsonb(j) - ARRAY['errors', 'claim_token', 'enqueue_token', 'runner_id', 'losses', 'suspicion', 'outlived', 'lost_with'],
                j.error_message,
                jsonb_build_object('errors', j.errors, 'attempts', j.attempts), j.completed_at,
                coalesce((SELECT max(d.requeue_count) FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = ANY (ARRAY[j.id, j.requeued_from])), 0)
            FROM asyncjobs.jobs AS j WHERE j.id = ANY (_rest) AND j.status = 'dead' ORDER BY j.id
            ON CONFLICT (id) DO NOTHING RETURNING l.job_id)
        SELECT array_agg(j.id) INTO _rest FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_rest) AND j.status = 'dead' AND j.id <> ALL (ARRAY(SELECT w.job_id FROM written AS w));
        EXIT WHEN _rest IS NULL;
        PERFORM asyncjobs.move_sequences();  -- the id of a letter belongs to another one
    END LOOP;
END $$;

-- Let the keys of jobs that ended go on, in the transaction that ended them; returns the heads that became pending. A dead job of
-- a type that halts keeps its row, and with it the key. The next head is looked for without a lock first: this transaction deleted
-- the dispatched row, so nobody else can dispatch. Only a key that seems empty is locked and looked at again, in a new statement:
-- an enqueue that saw the old head may have just committed. A lock that a stranger's transaction holds is not waited for (the acks of
-- a whole runner would): a serializer looks at that key after this commit.
CREATE FUNCTION asyncjobs.release_keys(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[];
    _released text[];
    _places bigint[];  -- of those that were heads
    _count integer;
    _found text[];
    _heads bigint[];
BEGIN
    WITH released AS (
        DELETE FROM asyncjobs.serialized_jobs AS s
        WHERE s.id = ANY (_ids) AND s.halted_at IS NULL AND NOT (s.on_dead = 'halt' AND EXISTS (
            SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[s.id]) AND j.status = 'dead'))
        RETURNING s.serialization_key, CASE WHEN s.job_id IS NOT NULL THEN s.place END AS place)
    SELECT array_agg(DISTINCT r.serialization_key), array_agg(r.serialization_key), array_agg(r.place), count(*)
    INTO _keys, _released, _places, _count FROM released AS r;
    IF _count < cardinality(_ids) THEN
        UPDATE asyncjobs.serialized_jobs AS s SET halted_at = asyncjobs.clock(), halt_reason = j.error_message
        FROM asyncjobs.jobs AS j
        WHERE s.id = ANY (_ids) AND s.halted_at IS NULL AND j.id = ANY (ARRAY[s.id]) AND j.status = 'dead';
    END IF;
    IF _keys IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(d.id), array_agg(d.serialization_key) INTO _heads, _found
    FROM asyncjobs.dispatch_keys(_released, _places) AS d;
    IF coalesce(cardinality(_found), 0) < cardinality(_keys) THEN
        _heads := _heads || asyncjobs.look_again(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE _found IS NULL OR k.key <> ALL (_found)));
    END IF;
    RETURN _heads;
END $$;

-- The second look at keys that seemed empty, under their locks.
CREATE FUNCTION asyncjobs.look_again(_keys text[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked text[];
BEGIN
    BEGIN
        PERFORM asyncjobs.lock_keys_shortly(_keys);
    EXCEPTION WHEN lock_not_available THEN
        _locked := asyncjobs.try_lock_keys(_keys);
        PERFORM asyncjobs.request_dispatch(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (_locked)));
        _keys := _locked;
    END;
    RETURN (SELECT array_agg(d.id) FROM asyncjobs.dispatch_keys(_keys) AS d);
END $$;

-- A row of the answer to a runner's call, by `kind`:
--   'lost'  an outcome whose claim was not ours any more (id, token)
--   'head'  a job of `queue` became pending here and was not claimed here: that queue is to be notified
--   'gone'  the runner's own row is missing: it was declared dead, nothing was claimed
--   'job'   a claimed job, by scan (its number among the wants, from 1); 'ask', 'ask all': one of a stub, by its `on_dead`
-- A type with a name: the server looks it up once, and describes columns that a function declares anew in each call.
CREATE TYPE asyncjobs.answer AS (
    kind text, scan integer, queue text, id bigint, token bigint, type text, version integer, payload jsonb, priority smallint,
    place bigint, attempts integer, max_attempts integer, scheduled_at timestamptz, run_at timestamptz, started_at timestamptz,
    created_at timestamptz, serialization_key text, rest jsonb);

-- Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.answer_kind(_on_dead text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE _on_dead WHEN 'advance' THEN 'job' WHEN 'halt' THEN 'job' ELSE _on_dead END;

-- Claim at most `_limit` pending jobs of a queue: of one lane, or of any when `_lane` is null; from the front, or from behind
-- (`_priority`, `_place`). `_suspects` asks for suspects (0007_rescue.sql), else only others are taken.
-- It locks exactly the rows it takes. `_versions`: the newest payload of each type that the runner can run.
CREATE FUNCTION asyncjobs.claim(
    _runner bigint, _queue text, _lane text, _limit integer, _from_priority integer, _from_place bigint, _types text[],
    _suspects boolean, _token_base bigint, _token_seq bigint, _versions jsonb DEFAULT '{}', _scan integer DEFAULT NULL)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _picked tid[];  -- locked, so they stay where they are
BEGIN
    IF _suspects THEN
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE j.queue = _queue AND j.status = 'pending' AND j.suspicion > 0 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) AND (_lane IS NULL OR j.lane = _lane)
            ORDER BY j.suspicion, j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    ELSIF _lane IS NULL THEN
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE j.queue = _queue AND j.status = 'pending' AND (j.priority, j.place) > (_from_priority, _from_place)
              AND j.suspicion = 0 AND j.type = ANY (_types) AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    ELSE
        _picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j
            WHERE j.queue = _queue AND j.lane = _lane AND j.status = 'pending'
              AND (j.priority, j.place) > (_from_priority, _from_place) AND j.suspicion = 0 AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version)
            ORDER BY j.priority, j.place LIMIT _limit FOR UPDATE SKIP LOCKED);
    END IF;
    IF cardinality(_picked) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE asyncjobs.jobs AS j
    SET status = 'processing', attempts = least(j.attempts, 2147483646) + 1, runner_id = _runner, error_message = NULL,
        -- (a job that was enqueued after this transaction had begun did not start before it was there)
        started_at = greatest(asyncjobs.clock(), j.run_at, j.created_at),
        claim_token = (_token_base << 32) | ((_token_seq + p.number) & 4294967295), updated_at = asyncjobs.clock()
    FROM unnest(_picked) WITH ORDINALITY AS p(ctid, number)
    WHERE j.ctid = p.ctid
    RETURNING asyncjobs.answer_kind(j.on_dead), _scan, j.queue, j.id, j.claim_token, j.type, j.version, j.payload, j.priority, j.place, j.attempts,
        j.max_attempts, asyncjobs.instant(j.scheduled_at), asyncjobs.instant(j.run_at), j.started_at, asyncjobs.instant(j.created_at),
        j.serialization_key, asyncjobs.rest(j.lane, j.timeout, j.snoozes, j.rescues, j.losses, j.suspicion, j.correlation_id, j.parent_job_id, j.created_by,
            j.dedup_key, j.requeued_from, j.trace_context, j.progress, j.last_error);
END $$;

-- One call of a runner: outcomes in, lost claims and new claims out. `_suspects`: by scan, whether it may take one; over all scans one
-- is claimed. Of each group of `_probe_types` (none of them is in `_types`) no
-- more jobs are claimed than its limit, over all scans, and each scan begins with them.
CREATE FUNCTION asyncjobs.finish(
    _runner bigint, _ids bigint[], _tokens bigint[], _statuses text[], _delays float8[], _refunds boolean[], _snoozes boolean[],
    _results text[], _dropped text[], _messages text[], _errors text[], _max_errors integer,
    _scan_queues text[], _scan_lanes text[], _scan_limits integer[], _scan_priorities integer[], _scan_places bigint[],
    _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint,
    _probe_types text[], _probe_groups integer[], _probe_limits integer[], _unbegun boolean[] DEFAULT NULL, _progress text[] DEFAULT NULL)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _written bigint[];
    _pending bigint[];
    _seq bigint := _token_seq;
    _limit integer;
    _count integer;
    _most integer;
    _of text[];
    _is_probe boolean;
    _again boolean;
    _any_paused boolean;
    _versions jsonb;
    _row asyncjobs.answer;
BEGIN
    IF cardinality(_ids) > 0 THEN
        SELECT a.written, a.pending INTO _written, _pending
        FROM asyncjobs.ack(_ids, _tokens, _statuses, _delays, _refunds, _snoozes, _results, _dropped, _messages, _errors, _max_errors,
            _unbegun, _progress) AS a;
        IF coalesce(cardinality(_written), 0) < cardinality(_ids) THEN
            _row.kind := 'lost';
            FOR _row.id, _row.token IN SELECT o.id, o.token FROM unnest(_ids, _tokens) AS o(id, token)
                                       WHERE _written IS NULL OR o.token <> ALL (_written) LOOP
                RETURN NEXT _row;
            END LOOP;
        END IF;
    END IF;

    IF cardinality(_scan_queues) > 0 THEN
        -- Held until the commit: whoever declares this runner dead waits, and then sees these claims.
        SELECT r.versions INTO _versions FROM asyncjobs.runners AS r WHERE r.id = _runner FOR KEY SHARE;
        IF NOT FOUND THEN
            _row := NULL;
            _row.kind := 'gone';
            RETURN NEXT _row;
            _scan_queues := NULL;
        END IF;
        _any_paused := EXISTS (SELECT FROM asyncjobs.pauses);
        IF _any_paused THEN
            _types := ARRAY(SELECT t.type FROM unnest(_types) AS t(type)
                EXCEPT SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
            _probe_types := ARRAY(SELECT CASE WHEN p.name IS NULL THEN t.type END
                FROM unnest(_probe_types) WITH ORDINALITY AS t(type, number)
                LEFT JOIN asyncjobs.pauses AS p ON p.kind = 'type' AND p.name = t.type ORDER BY t.number);
        END IF;
        FOR _scan IN 1 .. coalesce(cardinality(_scan_queues), 0) LOOP
            _limit := _scan_limits[_scan];
            CONTINUE WHEN _any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'queue' AND p.name = _scan_queues[_scan]);
            FOR _group IN 1 .. coalesce(cardinality(_probe_limits), 0) + 1 LOOP
                _is_probe := coalesce(_group <= cardinality(_probe_limits), false);
                _of := CASE WHEN _is_probe
                            THEN ARRAY(SELECT p.type FROM unnest(_probe_types, _probe_groups) AS p(type, number) WHERE p.number = _group)
                            ELSE _types END;
                FOREACH _again IN ARRAY ARRAY[true, false] LOOP
                    _most := CASE WHEN _is_probe THEN least(_limit, _probe_limits[_group]) ELSE _limit END;
                    CONTINUE WHEN _most = 0 OR (_again AND _suspects[_scan] IS NOT TRUE);
                    RETURN QUERY SELECT c.kind, c.scan, c.queue, c.id, c.token, c.type, c.version, c.payload, c.priority, c.place, c.attempts,
                        c.max_attempts, c.scheduled_at, c.run_at, c.started_at, c.created_at, c.serialization_key, c.rest
                    FROM asyncjobs.claim(_runner, _scan_queues[_scan], _scan_lanes[_scan], CASE WHEN _again THEN 1 ELSE _most END,
                        CASE WHEN _again OR _is_probe THEN -1 ELSE _scan_priorities[_scan] END,
                        CASE WHEN _again OR _is_probe THEN -1 ELSE _scan_places[_scan] END, _of, _again, _token_base, _seq,
                        _versions, _scan) AS c;
                    GET DIAGNOSTICS _count = ROW_COUNT;
                    _seq := _seq + _count;
                    _limit := _limit - _count;
                    IF _again AND _count > 0 THEN
                        _suspects := NULL;
                    END IF;
                    IF _is_probe THEN
                        _probe_limits[_group] := _probe_limits[_group] - _count;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
    END IF;

    IF _pending IS NOT NULL THEN
        _row := NULL;
        FOR _row.kind, _row.queue IN
            SELECT DISTINCT 'head', j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending) AND j.status = 'pending' LOOP
            RETURN NEXT _row;
        END LOOP;
    END IF;
END $$;

-- Which of these scans (a queue, and a lane of it or null) would find a job if nobody held rows locked: what was skipped by one that came
-- back short is still there, or has been let go since.
CREATE FUNCTION asyncjobs.skipped(_runner bigint, _queues text[], _lanes text[], _types text[], _suspects boolean)
RETURNS TABLE (queue text, lane text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);
    _versions jsonb := (SELECT r.versions FROM asyncjobs.runners AS r WHERE r.id = _runner);
    _queue text;
    _lane text;
BEGIN
    IF _any_paused THEN
        _types := ARRAY(SELECT t.type FROM unnest(_types) AS t(type)
            EXCEPT SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
    END IF;
    FOR _queue, _lane IN SELECT s.queue, s.lane FROM unnest(_queues, _lanes) AS s(queue, lane) LOOP
        CONTINUE WHEN _any_paused AND EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'queue' AND p.name = _queue);
        IF _lane IS NULL THEN
            PERFORM FROM asyncjobs.jobs AS j
            WHERE j.queue = _queue AND j.status = 'pending' AND (_suspects OR j.suspicion = 0) AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        ELSE
            PERFORM FROM asyncjobs.jobs AS j
            WHERE j.queue = _queue AND j.lane = _lane AND j.status = 'pending' AND (_suspects OR j.suspicion = 0) AND j.type = ANY (_types)
              AND asyncjobs.can_run(_versions, j.type, j.version) LIMIT 1;
        END IF;
        IF FOUND THEN
            queue := _queue;
            lane := _lane;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- What became of outcomes whose answer was lost: those still to be written, and those that were. A claim that is neither is lost;
-- so is one that an operator's SQL took away: it leaves the runner's name on the row, an ack does not.
CREATE FUNCTION asyncjobs.still_processing(_ids bigint[], _tokens bigint[]) RETURNS TABLE (token bigint, is_ours boolean) LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT o.token, j.status = 'processing'
    FROM unnest(_ids, _tokens) AS o(id, token) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token
    WHERE j.status = 'processing' OR j.runner_id IS NULL;
END;

-- Give back what is processing under this runner's name but not running there (a claim whose answer was lost), with the attempt.
-- The token changes: whatever still believes to own it is fenced. Also: release the keys of jobs that ended without a release
-- (completed inside a handler's own transaction by an attempt that is gone). What was claimed under a later token than `_last_token`
-- is left alone: the call may be carried out long after it was sent, when its connection was lost and the runner claims over another.
CREATE FUNCTION asyncjobs.give_back(_runner bigint, _running bigint[], _last_token bigint) RETURNS TABLE (id bigint, queue text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _stray bigint[];
BEGIN
    _stray := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.runner_id = _runner AND j.status = 'processing' AND j.id <> ALL (_running)
          AND ((_last_token - coalesce(j.claim_token, _last_token)) & 4294967295) < 2147483648  -- tokens are numbered modulo 2^32
        ORDER BY j.id + 0 FOR UPDATE);  -- a plan made for an empty table would read all jobs in the order of their ids
    RETURN QUERY
    UPDATE asyncjobs.jobs AS j
    SET status = CASE WHEN asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused' ELSE 'pending' END,
        attempts = greatest(j.attempts - 1, 0), claim_token = NULL, runner_id = NULL, started_at = NULL,
        place = p.place, updated_at = asyncjobs.clock()
    FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
          FROM (SELECT u.id FROM unnest(_stray) WITH ORDINALITY AS u(id, number) ORDER BY u.number) AS o) AS p
    WHERE j.id = ANY (ARRAY[p.id])
    RETURNING j.id, j.queue;
END $$;

-- ctx.complete: the job's completion inside the handler's own transaction. Only the jobs row is written: the key is released and
-- the runner's name taken off when the handler has ended, so an open transaction of a handler blocks nobody.
CREATE FUNCTION asyncjobs.complete_here(_id bigint, _token bigint, _result text, _dropped text, _progress text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('asyncjobs.completing') & 2147483647, (_id & 2147483647)::integer);  -- is_completing
    UPDATE asyncjobs.jobs AS j
    SET status = 'completed', completed_at = asyncjobs.moment(), result = _result::jsonb, result_dropped = _dropped,
        progress = coalesce(_progress::jsonb, j.progress), updated_at = asyncjobs.moment()
    WHERE j.id = _id AND j.claim_token = _token AND j.status = 'processing';
    RETURN FOUND;
END $$;

-- Whether the completion of a job in its handler's own transaction was committed. Null: that transaction is still open after so long
-- (it holds the row), or the claim is another's. What was committed is found without a lock.
CREATE FUNCTION asyncjobs.was_completed(_id bigint, _token bigint, _patience text) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
BEGIN
    SELECT j.status INTO _status FROM asyncjobs.jobs AS j WHERE j.id = _id AND j.claim_token = _token;
    IF _status = 'processing' THEN
        PERFORM set_config('lock_timeout', _patience, true);
        BEGIN
            SELECT j.status INTO _status FROM asyncjobs.jobs AS j WHERE j.id = _id AND j.claim_token = _token FOR SHARE;
        EXCEPTION WHEN lock_not_available THEN
            RETURN NULL;
        END;
    END IF;
    RETURN CASE _status WHEN 'completed' THEN true WHEN 'processing' THEN false END;
END $$;

-- Whether a transaction is open that has completed this job, or is about to. It holds the job's row for as long as its owner likes.
CREATE FUNCTION asyncjobs.is_completing(_id bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
          AND l.classid = (hashtext('asyncjobs.completing') & 2147483647)::oid AND l.objid = (_id & 2147483647)::oid AND l.objsubid = 2);
END $$;

-- After the handler of such a job ended: whether its completion was committed. If so the job is settled; `queues`: where a next
-- head became pending. A handler's open transaction is not waited for long: it may never end.
CREATE FUNCTION asyncjobs.settle_completed(_id bigint, _token bigint, OUT completed boolean, OUT queues text[]) LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL
    WHERE j.id = _id AND j.claim_token = _token AND j.status = 'completed';
    completed := FOUND;
    IF completed THEN
        PERFORM asyncjobs.end_dedup(ARRAY[_id]);
        _heads := asyncjobs.release_keys(ARRAY[_id]);
        queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
    END IF;
END $$;

-- An ack by itself, which gives up waiting for a row's lock after a moment: a handler's transaction may still hold it.
CREATE FUNCTION asyncjobs.finish_alone(
    _runner bigint, _ids bigint[], _tokens bigint[], _statuses text[], _delays float8[], _refunds boolean[], _snoozes boolean[],
    _results text[], _dropped text[], _messages text[], _errors text[], _max_errors integer, _unbegun boolean[], _progress text[])
RETURNS TABLE (kind text, id bigint, queue text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    RETURN QUERY SELECT f.kind, f.id, f.queue FROM asyncjobs.finish(_runner, _ids, _tokens, _statuses, _delays, _refunds, _snoozes,
        _results, _dropped, _messages, _errors, _max_errors, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL,
        _unbegun, _progress) AS f;
END $$;

-- How far running handlers are.
CREATE FUNCTION asyncjobs.set_progress(_ids bigint[], _tokens bigint[], _progress text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j SET progress = p.progress::jsonb
    FROM unnest(_ids, _tokens, _progress) AS p(id, token, progress)
    WHERE j.id = ANY (ARRAY[p.id]) AND j.claim_token = p.token AND j.status = 'processing';
END $$;

-- What claimed jobs of stubs left to their handlers.
CREATE FUNCTION asyncjobs.fill_in(
    _ids bigint[], _tokens bigint[], _max_attempts integer[], _timeouts float8[], _priorities integer[], _on_deads text[])
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH filled AS (
        UPDATE asyncjobs.jobs AS j
        SET max_attempts = o.max_attempts, timeout = make_interval(secs => o.timeout), priority = o.priority, on_dead = o.on_dead
        FROM unnest(_ids, _tokens, _max_attempts, _timeouts, _priorities, _on_deads)
            AS o(id, token, max_attempts, timeout, priority, on_dead)
        WHERE j.id = ANY (ARRAY[o.id]) AND j.claim_token = o.token AND j.status = 'processing'
        RETURNING j.id, j.on_dead)
    UPDATE asyncjobs.serialized_jobs AS s SET on_dead = f.on_dead FROM filled AS f WHERE s.id = ANY (ARRAY[f.id]);
END $$;
