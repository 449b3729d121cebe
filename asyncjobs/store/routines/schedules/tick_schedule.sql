-- A tick, or the ticks that are made up for: the row goes from the tick that it was at to `_reached`, and that feeds the jobs. A runner that
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
        SELECT j.status INTO _status FROM asyncjobs.jobs AS j WHERE j.id = _last_job_id;
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
