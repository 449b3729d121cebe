-- Begin to cancel a workflow: from the commit on none of its gates releases. `outcome`: 'unknown', 'ended', 'cancelling' (it was before), or
-- 'requested'.
CREATE FUNCTION asyncjobs.request_cancel(_workflow bigint, _message text) RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ended_at timestamptz;
BEGIN
    UPDATE asyncjobs.workflows AS w SET cancel_requested_at = asyncjobs.clock(), cancel_message = _message
    WHERE w.id = _workflow AND w.ended_at IS NULL AND w.cancel_requested_at IS NULL;
    IF FOUND THEN
        RETURN 'requested';
    END IF;
    SELECT w.ended_at INTO _ended_at FROM asyncjobs.workflows AS w WHERE w.id = _workflow;
    RETURN CASE WHEN NOT FOUND THEN 'unknown' WHEN _ended_at IS NOT NULL THEN 'ended' ELSE 'cancelling' END;
END $$;
