-- Make the jobs of a schedule: one per instant, which is when it was to run (null: now). Keys are locked: the transaction is the call.
CREATE FUNCTION asyncjobs.enqueue_scheduled(_job jsonb, _name text, _ticks timestamptz[], OUT ids bigint[], OUT created boolean[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _rows jsonb;
    _existing integer[];
    _refused integer[];
BEGIN
    SELECT jsonb_agg(jsonb_build_object('created_by', 'schedule ' || _name) || _job
        || jsonb_build_object('payload', (_job -> 'payload')::text, 'run_at', t.tick) ORDER BY t.number) INTO _rows
    FROM unnest(_ticks) WITH ORDINALITY AS t(tick, number);
    SELECT e.ids, e.existing, e.refused INTO ids, _existing, _refused
    FROM asyncjobs.enqueue_rows(
        NULL, ARRAY(SELECT asyncjobs.fresh_token() FROM unnest(_ticks)), asyncjobs.read_rows(ARRAY[_rows::text]), true, false, 0) AS e;
    IF _refused IS NOT NULL THEN
        ids := NULL;  -- its dedup key is taken, and it asked for nothing then
        RETURN;
    END IF;
    created := ARRAY(SELECT n.at <> ALL (coalesce(_existing, '{}')) FROM generate_series(1, cardinality(_ticks)) AS n(at) ORDER BY n.at);
END $$;
