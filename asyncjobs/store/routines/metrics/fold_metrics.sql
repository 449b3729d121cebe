-- Make one row of the rows of an hour's minutes, of a quarter of a day's hours, and of a day's quarters, the oldest first: one of each a
-- call. Rows that runners may still add to are never old enough. `_token` null: without a lease; else nothing is done when that term is over.
CREATE FUNCTION asyncjobs.fold_metrics(
    _duty text, _holder text, _token bigint,
    _minutes interval, _hours interval, _quarters interval, _days interval,  -- how long rows of each kind are kept
    OUT held boolean, OUT folded integer,   -- rows that went into others
    OUT deleted integer,
    OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    held := _token IS NULL OR asyncjobs.hold_lease(_duty, _holder, _token, '4 seconds');
    folded := 0; deleted := 0; more := false;
    IF NOT held THEN
        RETURN;
    END IF;
    folded := asyncjobs.fold_oldest('1 minute', '1 hour', _now - _minutes)
        + asyncjobs.fold_oldest('1 hour', '6 hours', _now - _hours)
        + asyncjobs.fold_oldest('6 hours', '1 day', _now - _quarters);
    DELETE FROM asyncjobs.job_metrics AS m WHERE m.span = '1 day' AND m.minute < _now - _days;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := folded > 0;
END $$;
