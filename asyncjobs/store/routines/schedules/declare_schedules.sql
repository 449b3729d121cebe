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
        CASE asyncjobs.declare_schedule(_row.name, _row.definition)
            WHEN 'added' THEN added := added || _row.name;
            WHEN 'enabled' THEN enabled := enabled || _row.name;
            WHEN 'differs' THEN differing := differing || _row.name;
            WHEN 'changed' THEN changed := changed || _row.name;
            ELSE NULL;  -- it is as declared
        END CASE;
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
