-- Whether the completion of a job in its handler's own transaction was committed. Null: that transaction is still open after so long
-- (it holds the row), or the claim is another's. What was committed is found without a lock.
CREATE FUNCTION asyncjobs.was_completed(_id bigint, _token bigint, _patience text) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
BEGIN
    SELECT j.status INTO _status FROM asyncjobs.jobs AS j WHERE j.id = _id AND j.claim_token = _token;
    IF _status = 'processing' THEN
        PERFORM set_config('lock_timeout', _patience, true);
        BEGIN
            SELECT j.status INTO _status FROM asyncjobs.jobs AS j WHERE j.id = _id AND j.claim_token = _token FOR SHARE;
        EXCEPTION WHEN lock_not_available THEN
            RETURN NULL;
        END;
    END IF;
    RETURN CASE _status WHEN 'completed' THEN true WHEN 'processing' THEN false END;
END $$;
