-- Attempts have ended that had permits of these keys (rule 4): the keys are opened, at once, in a transaction of asyncjobs' own. For a call
-- that claims it is noted where something was opened (`settled_limits`).
CREATE FUNCTION asyncjobs.free_permits(_freed text[], _keys text[], _queues text[], _lanes text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _opened text[] := asyncjobs.open_turns(_freed, _keys, _queues, _lanes, '{full}');
BEGIN
    IF cardinality(_opened) > 0 AND cardinality(_freed) > 0 THEN
        PERFORM set_config('asyncjobs_limits.opened', ARRAY(
            SELECT unnest(_opened) UNION SELECT unnest(nullif(current_setting('asyncjobs_limits.opened', true), '')::text[]))::text, true);
    END IF;
END $$;
