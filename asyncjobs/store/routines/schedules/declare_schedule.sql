-- Hold a schedule's row against its declaration. Answers what that made of it: added, enabled, changed, differs; null: it was as declared.
CREATE FUNCTION asyncjobs.declare_schedule(_name text, _definition jsonb) RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _is_former boolean;
BEGIN
    INSERT INTO asyncjobs.schedules (name, definition) VALUES (_name, _definition) ON CONFLICT (name) DO NOTHING;
    IF FOUND THEN
        RETURN 'added';
    END IF;
    UPDATE asyncjobs.schedules AS s SET enabled = true, disabled_because = NULL, disabled_reason = NULL, updated_at = asyncjobs.clock()
    WHERE s.name = _name AND s.definition = _definition AND s.disabled_because = 'removed';
    IF FOUND THEN
        RETURN 'enabled';
    END IF;
    PERFORM FROM asyncjobs.schedules AS s WHERE s.name = _name AND s.definition <> _definition FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- In a statement of its own: what others declared while this one waited for the row is seen.
    SELECT _definition = ANY (s.former_definitions) AND EXISTS (
        SELECT FROM asyncjobs.schedule_declarations AS o WHERE o.name = s.name AND o.definition = s.definition)
    INTO _is_former FROM asyncjobs.schedules AS s WHERE s.name = _name;
    IF _is_former THEN
        RETURN 'differs';
    END IF;
    -- What an operator disabled stays so. Other times begin now: the old ones' ticks were never this schedule's.
    UPDATE asyncjobs.schedules AS s
    SET definition = _definition,
        former_definitions = (array_remove(array_append(s.former_definitions, s.definition), _definition))[
            greatest(cardinality(s.former_definitions) - 8, 1):],
        last_tick = CASE WHEN t.is_same THEN s.last_tick ELSE asyncjobs.clock() END,
        unbroken_since = CASE WHEN t.is_same THEN s.unbroken_since ELSE asyncjobs.clock() END,
        spent = CASE WHEN t.is_same THEN s.spent ELSE '{}' END,
        enabled = coalesce(s.disabled_because <> 'operator', true),
        disabled_because = CASE WHEN s.disabled_because = 'operator' THEN s.disabled_because END,
        disabled_reason = CASE WHEN s.disabled_because = 'operator' THEN s.disabled_reason END,
        updated_at = asyncjobs.clock()
    FROM (SELECT o.definition -> 'timing' = _definition -> 'timing' AS is_same FROM asyncjobs.schedules AS o WHERE o.name = _name) AS t
    WHERE s.name = _name;
    RETURN 'changed';
END $$;
