-- The options of an enqueue, each checked, and together: what is null was not given. An option that is new has its line here, and so in
-- `Options` of declare/options.py. `_has_dedup_rule`: its type makes dedup keys.
CREATE FUNCTION asyncjobs.read_options(_options jsonb, _has_dedup_rule boolean) RETURNS asyncjobs.new_job LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row asyncjobs.new_job;
    _option record;
BEGIN
    IF coalesce(_options, 'null') IN ('{}', 'null') THEN
        RETURN _row;
    ELSIF jsonb_typeof(_options) <> 'object' THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('the options are %s: give them by name, as in {"delay": 60}.', asyncjobs.kind_of(_options)),
            'Options are a JSON object.');
    END IF;
    FOR _option IN SELECT o.key AS name, nullif(o.value, 'null') AS value FROM jsonb_each(_options) AS o LOOP
        CASE _option.name
            WHEN 'queue' THEN _row.queue := asyncjobs.read_name(_option.name, _option.value);
            WHEN 'lane' THEN _row.lane := asyncjobs.read_name(_option.name, _option.value);
            WHEN 'priority' THEN _row.priority := asyncjobs.read_whole(_option.name, _option.value, 0, 32767, ' (lower runs first)');
            WHEN 'run_at' THEN _row.run_at := asyncjobs.read_run_at(_option.name, _option.value);
            WHEN 'delay' THEN _row.delay_seconds := asyncjobs.read_seconds(_option.name, _option.value, false);
            WHEN 'max_attempts' THEN _row.max_attempts := asyncjobs.read_whole(_option.name, _option.value, 1, 2147483647);
            WHEN 'timeout' THEN
                _row.timeout_seconds := CASE WHEN _option.value = '"infinity"' THEN 'Infinity' ELSE asyncjobs.read_seconds(_option.name, _option.value, true) END;
            WHEN 'correlation_id' THEN _row.correlation_id := asyncjobs.read_key(_option.name, _option.value);
            WHEN 'parent_job_id' THEN
                _row.parent_job_id := asyncjobs.read_whole(_option.name, _option.value, 1, 9223372036854775807);
            WHEN 'created_by' THEN _row.created_by := asyncjobs.read_key(_option.name, _option.value);
            WHEN 'dedup_key' THEN _row.dedup_key := asyncjobs.read_key(_option.name, _option.value);
            WHEN 'dedup_for' THEN _row.dedup_for_seconds := asyncjobs.read_seconds(_option.name, _option.value, true);
            WHEN 'on_duplicate' THEN _row.on_duplicate := asyncjobs.read_choice(_option.name, _option.value, '{return,replace,raise}');
            WHEN 'dedup_until' THEN _row.dedup_until := asyncjobs.read_choice(_option.name, _option.value, '{start,end}');
            WHEN 'debounce' THEN PERFORM asyncjobs.read_debounce(_option.value);
            WHEN 'expires' THEN _row.expires_seconds := asyncjobs.read_seconds(_option.name, _option.value, true);
            WHEN 'tags' THEN _row.tags := asyncjobs.read_tags(_option.name, _option.value);
            WHEN 'serialization_key' THEN _row.serialization_key := asyncjobs.read_key(_option.name, _option.value);
            WHEN 'limit_key' THEN _row.limit_key := asyncjobs.read_key(_option.name, _option.value);
            WHEN 'keep_payload' THEN _row.keep_payload := asyncjobs.read_flag(_option.name, _option.value);
            WHEN 'notify' THEN _row.notify := asyncjobs.read_flag(_option.name, _option.value);
            WHEN 'undeclared' THEN PERFORM asyncjobs.read_flag(_option.name, _option.value);
            ELSE PERFORM asyncjobs.refuse('InvalidOption', format('no option %L.', _option.name),
                'Options: correlation_id, created_by, debounce, dedup_for, dedup_key, dedup_until, delay, expires, keep_payload, lane, limit_key, max_attempts, '
                'notify, on_duplicate, parent_job_id, priority, queue, run_at, serialization_key, tags, timeout, undeclared.');
        END CASE;
    END LOOP;
    RETURN asyncjobs.check_together(_row, _options, _has_dedup_rule);
END $$;
