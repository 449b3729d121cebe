-- What both doors do: one row for each payload, written and announced in this transaction.
CREATE FUNCTION asyncjobs.enqueue_payloads(_name text, _payloads jsonb[], _options jsonb) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now CONSTANT timestamptz := asyncjobs.moment();
    _rows asyncjobs.new_job[] := asyncjobs.payload_rows(_name, _payloads, _options, false);
    _done record;
BEGIN
    SELECT e.ids, e.existing, e.refused, e.statuses INTO _done
    FROM asyncjobs.enqueue_rows(
        NULL, array_fill(asyncjobs.fresh_token(), ARRAY[cardinality(_rows)]), _rows, false, false, 0, NULL, _now) AS e;
    IF _done.refused IS NOT NULL THEN
        PERFORM asyncjobs.refuse_duplicate(_rows[_done.refused[1]], _done.ids[_done.refused[1]], _done.statuses[1]);
    END IF;
    PERFORM asyncjobs.keep_quiet(_rows);
    PERFORM asyncjobs.announce(_rows, _done.existing, _now);
    RETURN _done.ids;
END $$;
