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
