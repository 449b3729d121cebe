-- What becomes of a job whose dedup key a live one has.
CREATE FUNCTION asyncjobs.read_on_duplicate(_option text, _value jsonb) RETURNS text LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _value NOT IN ('"return"', '"replace"', '"raise"') THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s=%s: give "return", "replace" or "raise".', _option, asyncjobs.shown(_value)),
            '"return" answers the id of the job that is there.');
    END IF;
    RETURN _value #>> '{}';
END $$;
