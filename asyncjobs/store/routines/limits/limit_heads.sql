-- What this call has opened and not used up: those queues are to be notified. With the last statements of a call.
CREATE FUNCTION asyncjobs.limit_heads() RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _queue text;
    _row asyncjobs.answer;
BEGIN
    FOR _queue IN SELECT unnest(nullif(current_setting('asyncjobs_limits.opened', true), '')::text[]) LOOP
        IF EXISTS (SELECT FROM asyncjobs.limit_groups(_queue, NULL, '{}', '{}')) THEN
            _row.kind := 'head'; _row.queue := _queue;
            RETURN NEXT _row;
        END IF;
    END LOOP;
    PERFORM set_config('asyncjobs_limits.opened', '', true);
END $$;
