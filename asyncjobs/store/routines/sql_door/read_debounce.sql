-- How long is waited after the last enqueue, and after the first: `Debounce` of declare/options.py.
CREATE FUNCTION asyncjobs.read_debounce(_value jsonb, OUT quiet float8, OUT at_most float8) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _value IS NULL THEN
        RETURN;
    END IF;
    IF jsonb_typeof(_value) = 'object' AND _value - '{quiet,at_most}'::text[] = '{}' THEN
        quiet := asyncjobs.read_seconds('quiet', _value -> 'quiet', true);
        at_most := asyncjobs.read_seconds('at_most', _value -> 'at_most', true);
    END IF;
    IF quiet IS NULL OR at_most IS NULL THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('debounce=%s is %s: give {"quiet": 5, "at_most": 60}.', asyncjobs.shown(_value), asyncjobs.kind_of(_value)),
            'Both are seconds or intervals.');
    ELSIF quiet > at_most THEN
        PERFORM asyncjobs.refuse('InvalidOption',
            format('Debounce(quiet=%s, at_most=%s): quiet is longer than at_most: it would never decide.', quiet, at_most), 'Nothing was written.');
    END IF;
END $$;
