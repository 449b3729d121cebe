-- Schedules: their rows, what runners declare, and the tick.
--
-- The code is the truth. A runner declares its schedules, under its own id, and fires only a row whose definition equals what it
-- declared. Its declarations go with its own row, so whatever is in `schedule_declarations` is declared by a runner that lives.
--
-- Of two definitions of one name the newest wins: one that was never there before replaces the other at once, one that was replaced
-- before comes back only when no runner that lives declares its successor. So the old and the new programs of a rolling deploy do
-- not undo each other's work, whichever restarts in between, and rolling back works.
--
-- `last_tick` is how far a schedule got. After the server's clock was put far ahead and back that lies in the future, and the schedule
-- would be silent until then. Whoever finds that ticks between now and then had no turn lets it begin anew from now; those that had one
-- while the clock was ahead are `spent`, and make no job a second time. From `unbroken_since` to `last_tick` each tick had its turn;
-- a tick that leaves others out begins it anew.

CREATE TABLE asyncjobs.schedules (
    name               text PRIMARY KEY,
    definition         jsonb NOT NULL,
    type               text GENERATED ALWAYS AS (definition #>> '{job,type}') STORED,
    queue              text GENERATED ALWAYS AS (definition #>> '{job,queue}') STORED,
    payload            jsonb GENERATED ALWAYS AS (definition #> '{job,payload}') STORED,
    serialization_key  text GENERATED ALWAYS AS (definition #>> '{job,serialization_key}') STORED,
    dedup_key          text GENERATED ALWAYS AS (definition #>> '{job,dedup_key}') STORED,
    cron               text GENERATED ALWAYS AS (definition #>> '{timing,cron}') STORED,
    every              interval GENERATED ALWAYS AS (pg_catalog.make_interval(secs => (definition #>> '{timing,every}')::float8)) STORED,
    timezone           text GENERATED ALWAYS AS (definition #>> '{timing,timezone}') STORED,
    misfire            text GENERATED ALWAYS AS (definition ->> 'misfire') STORED,
    overlap            text GENERATED ALWAYS AS (definition ->> 'overlap') STORED,
    last_tick          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    unbroken_since     timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    spent              tstzmultirange NOT NULL DEFAULT '{}',
    last_job_id        bigint,
    enabled            boolean NOT NULL DEFAULT true,
    disabled_because   text CHECK (disabled_because IN ('operator', 'removed', 'failed')),
    disabled_reason    text,
    former_definitions jsonb[] NOT NULL DEFAULT '{}',
    created_at         timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    updated_at         timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    CONSTRAINT schedules_enabled_check CHECK (enabled = (disabled_because IS NULL))
) WITH (fillfactor = 50);  -- 60 schedules ticking together, 60 times: all HOT, 12 pages; at 70 % 97.6 %, 19; at 100 % 46 %, 183

CREATE TABLE asyncjobs.schedule_declarations (
    runner_id  bigint NOT NULL REFERENCES asyncjobs.runners (id) ON DELETE CASCADE,
    name       text NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (runner_id, name)
);
CREATE INDEX schedule_declarations_name ON asyncjobs.schedule_declarations (name);

-- Hold the rows against what a runner declares: all of its schedules. Rows are taken in the order of their names by everybody.
CREATE FUNCTION asyncjobs.declare_schedules(
    _runner bigint, _names text[], _definitions text[],
    OUT registered boolean,  -- false: there is no such runner (any more), and nothing was done
    OUT added text[], OUT changed text[], OUT enabled text[], OUT removed text[],
    OUT differing text[])    -- whose row has a newer definition, which other runners declare
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _is_former boolean;
BEGIN
    PERFORM FROM asyncjobs.runners AS r WHERE r.id = _runner FOR KEY SHARE;
    registered := FOUND;
    IF NOT registered THEN
        RETURN;
    END IF;
    DELETE FROM asyncjobs.schedule_declarations AS d WHERE d.runner_id = _runner AND NOT d.name = ANY (_names);
    INSERT INTO asyncjobs.schedule_declarations AS d (runner_id, name, definition)
    SELECT _runner, n.name, n.definition::jsonb FROM unnest(_names, _definitions) AS n(name, definition)
    ON CONFLICT (runner_id, name) DO UPDATE SET definition = excluded.definition WHERE d.definition <> excluded.definition;

    FOR _row IN
        SELECT d.name, d.definition FROM asyncjobs.schedule_declarations AS d WHERE d.runner_id = _runner ORDER BY d.name
    LOOP
        INSERT INTO asyncjobs.schedules (name, definition) VALUES (_row.name, _row.definition) ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            added := added || _row.name;
            CONTINUE;
        END IF;
        UPDATE asyncjobs.schedules AS s
        SET enabled = true, disabled_because = NULL, disabled_reason = NULL, updated_at = asyncjobs.clock()
        WHERE s.name = _row.name AND s.definition = _row.definition AND s.disabled_because = 'removed';
        IF FOUND THEN
            enabled := enabled || _row.name;
            CONTINUE;
        END IF;
        PERFORM FROM asyncjobs.schedules AS s WHERE s.name = _row.name AND s.definition <> _row.definition FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- In a statement of its own: what others declared while this one waited for the row is seen.
        SELECT _row.definition = ANY (s.former_definitions) AND EXISTS (
            SELECT FROM asyncjobs.schedule_declarations AS o WHERE o.name = s.name AND o.definition = s.definition)
        INTO _is_former FROM asyncjobs.schedules AS s WHERE s.name = _row.name;
        IF _is_former THEN
            differing := differing || _row.name;
            CONTINUE;
        END IF;
        -- What an operator disabled stays so. Other times begin now: the old ones' ticks were never this schedule's.
        UPDATE asyncjobs.schedules AS s
        SET definition = _row.definition,
            former_definitions = (array_remove(array_append(s.former_definitions, s.definition), _row.definition))[
                greatest(cardinality(s.former_definitions) - 8, 1):],
            last_tick = CASE WHEN s.definition -> 'timing' = _row.definition -> 'timing' THEN s.last_tick ELSE asyncjobs.clock() END,
            unbroken_since = CASE WHEN s.definition -> 'timing' = _row.definition -> 'timing' THEN s.unbroken_since
                                  ELSE asyncjobs.clock() END,
            spent = CASE WHEN s.definition -> 'timing' = _row.definition -> 'timing' THEN s.spent ELSE '{}' END,
            enabled = coalesce(s.disabled_because <> 'operator', true),
            disabled_because = CASE WHEN s.disabled_because = 'operator' THEN s.disabled_because END,
            disabled_reason = CASE WHEN s.disabled_because = 'operator' THEN s.disabled_reason END,
            updated_at = asyncjobs.clock()
        WHERE s.name = _row.name;
        changed := changed || _row.name;
    END LOOP;

    -- A program that is gone for a moment (a restart) declares them again, and finds them where it left them.
    WITH gone AS MATERIALIZED (
        SELECT s.name FROM asyncjobs.schedules AS s
        WHERE s.enabled AND NOT EXISTS (SELECT FROM asyncjobs.schedule_declarations AS d WHERE d.name = s.name)
        ORDER BY s.name FOR NO KEY UPDATE OF s SKIP LOCKED
    ), updated AS (
        UPDATE asyncjobs.schedules AS s
        SET enabled = false, disabled_because = 'removed', disabled_reason = 'no runner declares it', updated_at = asyncjobs.clock()
        FROM gone AS g WHERE s.name = g.name RETURNING s.name
    )
    SELECT array_agg(u.name ORDER BY u.name) INTO removed FROM updated AS u;
END $$;

-- What a runner has to do: where its schedules are, by the server's clock; also those that failed, which tick again when they can. `led`: those that the runner fires which holds the lease of
-- the duty `cron`; it has not declared the others, or has another definition. `ahead`: those that have to begin anew, since the clock
-- was put back; a minute is no reason, and a look may be older than a tick that it sees. `stale`: hold the rows against what it declares
-- again.
CREATE FUNCTION asyncjobs.look_at_schedules(
    _runner bigint, OUT now timestamptz, OUT names text[], OUT last_ticks timestamptz[], OUT failed text[], OUT led text[], OUT ahead text[],
    OUT declared bigint, OUT stale boolean)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _holder bigint;
BEGIN
    SELECT nullif(l.held_by_worker_id, 'none')::bigint INTO _holder FROM asyncjobs.background_job_leases AS l WHERE l.job_name = 'cron';
    SELECT asyncjobs.clock(), array_agg(s.name ORDER BY s.name) FILTER (WHERE (s.enabled OR s.disabled_because = 'failed') AND s.definition = d.definition),
        array_agg(s.last_tick ORDER BY s.name) FILTER (WHERE (s.enabled OR s.disabled_because = 'failed') AND s.definition = d.definition),
        array_agg(s.name) FILTER (WHERE s.disabled_because = 'failed'),
        array_agg(s.name) FILTER (WHERE h.definition = s.definition),
        array_agg(s.name) FILTER (WHERE s.enabled AND s.definition = d.definition
            AND least(s.unbroken_since, s.last_tick) > asyncjobs.clock() + interval '1 minute' AND isfinite(s.last_tick)),
        count(d.name),
        coalesce(bool_or(s.name IS NULL OR s.definition <> d.definition OR s.disabled_because = 'removed'), false)
    INTO now, names, last_ticks, failed, led, ahead, declared, stale
    FROM asyncjobs.schedule_declarations AS d LEFT JOIN asyncjobs.schedules AS s ON s.name = d.name
    LEFT JOIN asyncjobs.schedule_declarations AS h ON h.runner_id = _holder AND h.name = s.name
    WHERE d.runner_id = _runner;
    stale := stale OR EXISTS (
        SELECT FROM asyncjobs.schedules AS s
        WHERE s.enabled AND NOT EXISTS (SELECT FROM asyncjobs.schedule_declarations AS d WHERE d.name = s.name));
END $$;

-- Make the jobs of a schedule: one per instant, which is when it was to run (null: now). Keys are locked: the transaction is the call.
CREATE FUNCTION asyncjobs.enqueue_scheduled(_job jsonb, _name text, _ticks timestamptz[], OUT ids bigint[], OUT created boolean[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _count integer := cardinality(_ticks);
    _made record;
BEGIN
    SELECT e.ids, e.existing, e.refused INTO _made
    FROM jsonb_to_record(_job) AS r(type text, queue text, lane text, version integer, payload text, priority integer,
        max_attempts integer, timeout_seconds float8, correlation_id text, created_by text, dedup_key text, dedup_for_seconds float8,
        on_duplicate text, serialization_key text, on_dead text, trace_context text)
    CROSS JOIN LATERAL asyncjobs.enqueue(NULL, ARRAY(SELECT asyncjobs.fresh_token() FROM generate_series(1, _count)), array_fill(r.type, ARRAY[_count]),
        array_fill(r.queue, ARRAY[_count]), array_fill(r.lane, ARRAY[_count]), array_fill(r.version, ARRAY[_count]),
        array_fill(r.payload, ARRAY[_count]), array_fill(r.priority, ARRAY[_count]), array_fill(r.max_attempts, ARRAY[_count]),
        array_fill(r.timeout_seconds, ARRAY[_count]), _ticks, NULL, array_fill(r.correlation_id, ARRAY[_count]), NULL,
        array_fill(coalesce(r.created_by, 'schedule ' || _name), ARRAY[_count]),
        CASE WHEN r.dedup_key IS NOT NULL THEN array_fill(r.dedup_key, ARRAY[_count]) END,
        array_fill(r.dedup_for_seconds, ARRAY[_count]), array_fill(r.on_duplicate, ARRAY[_count]),
        CASE WHEN r.serialization_key IS NOT NULL THEN array_fill(r.serialization_key, ARRAY[_count]) END,
        array_fill(r.on_dead, ARRAY[_count]), array_fill(r.trace_context, ARRAY[_count]), true, false, 0, NULL) AS e;
    IF _made.refused IS NOT NULL THEN
        RETURN;  -- its dedup key is taken, and it asked for nothing then
    END IF;
    ids := _made.ids;
    created := ARRAY(SELECT n.at <> ALL (coalesce(_made.existing, '{}')) FROM generate_series(1, _count) AS n(at) ORDER BY n.at);
END $$;

-- A tick, or the ticks that are made up for: the row goes from the tick that it was at to `_reached`, and that feeds the jobs. Whoever
-- comes second finds another tick there and does nothing, so a tick makes its job once, however many runners see it come.
CREATE FUNCTION asyncjobs.tick_schedule(
    _name text, _runner bigint, _previous timestamptz, _reached timestamptz, _ticks timestamptz[],
    _skips boolean,      -- ticks before these, after `_previous`, are left out
    OUT outcome text,    -- fired, taken (by another runner, or it is not ours to fire), locked, overlapped, duplicate, skipped, spent
    OUT ids bigint[], OUT created boolean[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _definition jsonb;
    _last_job_id bigint;
    _status text;
    _spent tstzmultirange;
BEGIN
    -- Most likely another runner lets it tick, but it may also be one that declares it, or an operator.
    outcome := 'locked';
    SELECT s.spent INTO _spent FROM asyncjobs.schedules AS s WHERE s.name = _name FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    outcome := 'taken';
    UPDATE asyncjobs.schedules AS s
    SET last_tick = _reached, updated_at = asyncjobs.clock(),
        -- (one that failed has recovered when it makes its jobs: where it does not, nothing of this stays)
        enabled = s.enabled OR cardinality(_ticks) > 0,
        disabled_because = CASE WHEN cardinality(_ticks) = 0 THEN s.disabled_because END,
        disabled_reason = CASE WHEN cardinality(_ticks) = 0 THEN s.disabled_reason END,
        unbroken_since = CASE WHEN _skips THEN coalesce(_ticks[1], _reached) ELSE s.unbroken_since END,
        spent = s.spent * tstzmultirange(tstzrange(_reached, NULL, '()'))
    WHERE s.name = _name AND s.last_tick = _previous AND (s.enabled OR s.disabled_because = 'failed') AND _reached <= asyncjobs.clock()
      AND s.definition = (SELECT d.definition FROM asyncjobs.schedule_declarations AS d WHERE d.runner_id = _runner AND d.name = _name)
    RETURNING s.definition, s.last_job_id INTO _definition, _last_job_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    outcome := 'skipped';
    IF cardinality(_ticks) = 0 THEN
        RETURN;
    END IF;
    IF NOT isempty(_spent) THEN
        _ticks := ARRAY(SELECT u.tick FROM unnest(_ticks) WITH ORDINALITY AS u(tick, number) WHERE NOT u.tick <@ _spent ORDER BY u.number);
        IF cardinality(_ticks) = 0 THEN
            outcome := 'spent';
            RETURN;
        END IF;
    END IF;
    IF _definition ->> 'overlap' <> 'allow' THEN
        _ticks := _ticks[cardinality(_ticks):];  -- the others would overlap with it
        SELECT o.status INTO _status FROM asyncjobs.status_and_key(_last_job_id) AS o;
        IF _status IN ('waiting', 'scheduled', 'pending', 'paused')
           OR (_definition ->> 'overlap' = 'skip' AND _status NOT IN ('completed', 'dead', 'cancelled')) THEN
            outcome := 'overlapped';
            RETURN;
        END IF;
    END IF;
    SELECT e.ids, e.created INTO ids, created FROM asyncjobs.enqueue_scheduled(_definition -> 'job', _name, _ticks) AS e;
    outcome := CASE WHEN true = ANY (created) THEN 'fired' ELSE 'duplicate' END;
    UPDATE asyncjobs.schedules AS s SET last_job_id = ids[cardinality(ids)] WHERE s.name = _name AND ids IS NOT NULL;
END $$;

-- Make a schedule's job now, whatever its ticks and its overlap say. No row: there is no such schedule.
CREATE FUNCTION asyncjobs.run_schedule(_name text) RETURNS TABLE (id bigint, created boolean, queue text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _definition jsonb;
    _made record;
BEGIN
    SELECT s.definition INTO _definition FROM asyncjobs.schedules AS s WHERE s.name = _name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT e.ids, e.created INTO _made
    FROM asyncjobs.enqueue_scheduled(_definition -> 'job', _name, ARRAY[NULL::timestamptz]) AS e;
    UPDATE asyncjobs.schedules AS s SET last_job_id = _made.ids[1] WHERE s.name = _name AND _made.ids IS NOT NULL;
    RETURN QUERY SELECT _made.ids[1], coalesce(_made.created[1], false), _definition #>> '{job,queue}';
END $$;
