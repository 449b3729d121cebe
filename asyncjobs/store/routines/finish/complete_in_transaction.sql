-- ctx.complete: the job's completion inside the handler's own transaction. Only the jobs row is written: the key is released and
-- the runner's name taken off when the handler has ended, so an open transaction of a handler blocks no other.
CREATE FUNCTION asyncjobs.complete_in_transaction(_id bigint, _token bigint, _result text, _dropped text, _progress text DEFAULT NULL,
    _empties boolean DEFAULT false) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('asyncjobs.completing') & 2147483647, (_id & 2147483647)::integer);  -- is_completing
    UPDATE asyncjobs.jobs AS j
    SET status = 'completed', completed_at = asyncjobs.moment(), result = _result::jsonb, result_dropped = _dropped,
        progress = coalesce(_progress::jsonb, j.progress), payload = CASE WHEN _empties THEN '{}' ELSE j.payload END,
        updated_at = asyncjobs.moment()
    WHERE j.id = _id AND j.claim_token = _token AND j.status = 'processing';
    RETURN FOUND;
END $$;
