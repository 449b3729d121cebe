-- What an option needs another for, or excludes it, and what a debounce decides: `check_together` of declare/options.py, `columns_of` of
-- declare/definition.py.
CREATE FUNCTION asyncjobs.check_together(_row asyncjobs.new_job, _options jsonb, _has_dedup_rule boolean) RETURNS asyncjobs.new_job
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _of text;
    _quiet float8;
    _at_most float8;
BEGIN
    IF _row.run_at IS NOT NULL AND _row.delay_seconds IS NOT NULL THEN
        PERFORM asyncjobs.refuse('InvalidOption', 'give run_at or delay, not both.', 'A delay counts from now.');
    END IF;
    IF _row.dedup_key IS NULL AND NOT _has_dedup_rule THEN
        SELECT o.name INTO _of FROM unnest('{dedup_for,on_duplicate,debounce,dedup_until}'::text[]) WITH ORDINALITY AS o(name, number)
        WHERE _options ->> o.name IS NOT NULL ORDER BY o.number LIMIT 1;
        IF FOUND THEN
            PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s needs a dedup_key: give one.', _of,
                CASE jsonb_typeof(_options -> _of) WHEN 'string' THEN quote_literal(_options ->> _of) ELSE asyncjobs.shown(_options -> _of) END),
                'A dedup key is what says that two jobs of a type are the same.');
        END IF;
    END IF;
    SELECT d.quiet, d.at_most INTO _quiet, _at_most FROM asyncjobs.read_debounce(nullif(_options -> 'debounce', 'null')) AS d;
    IF _quiet IS NOT NULL THEN
        SELECT o.name INTO _of FROM unnest('{run_at,delay,on_duplicate}'::text[]) WITH ORDINALITY AS o(name, number)
        WHERE _options ->> o.name IS NOT NULL ORDER BY o.number LIMIT 1;
        IF FOUND THEN
            PERFORM asyncjobs.refuse('InvalidOption',
                format('%s=%s was given with a debounce, which decides that.', _of,
                CASE jsonb_typeof(_options -> _of) WHEN 'string' THEN quote_literal(_options ->> _of) ELSE asyncjobs.shown(_options -> _of) END), 'Give one of them.');
        END IF;
        _row.delay_seconds := _quiet;
        _row.at_most_seconds := _at_most;
        _row.on_duplicate := 'replace';
        _row.dedup_until := coalesce(_row.dedup_until, 'start');
    END IF;
    RETURN _row;
END $$;
