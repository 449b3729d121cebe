-- The last that a call does for limits: close what it has found full, or without jobs (`settle_limits`), and say when the next key opens that
-- was closed by its rate, and in which queues it has opened what it has not used up: those are to be notified.
CREATE FUNCTION asyncjobs.settled_limits() RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _queue text;
    _row asyncjobs.answer;
BEGIN
    IF current_setting('asyncjobs_limits.touched', true) <> '' THEN
        _row.kind := 'due';
        _row.rest := to_jsonb(asyncjobs.settle_limits());
        IF _row.rest IS NOT NULL THEN
            RETURN NEXT _row;
        END IF;
    END IF;
    IF current_setting('asyncjobs_limits.opened', true) <> '' THEN
        FOR _queue IN SELECT unnest(current_setting('asyncjobs_limits.opened', true)::text[]) LOOP
            IF EXISTS (SELECT FROM asyncjobs.limit_groups(_queue, NULL, '{}', '{}')) THEN
                _row := NULL; _row.kind := 'head'; _row.queue := _queue;
                RETURN NEXT _row;
            END IF;
        END LOOP;
        PERFORM set_config('asyncjobs_limits.opened', '', true);
    END IF;
END $$;
