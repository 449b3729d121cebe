-- A service said to a job that runs that it is to come back after so many seconds: its key is closed for that long, and begins slowly then, if it
-- has a rate. A transaction of its own. False: the job has no limit, or the claim is another's.
CREATE FUNCTION asyncjobs.throttle_key(_id bigint, _token bigint, _seconds float8) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = '2s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _key text;
    _now timestamptz;
    _until timestamptz;
BEGIN
    SELECT j.limit_key INTO _key FROM asyncjobs.jobs AS j WHERE j.id = _id AND j.claim_token = _token AND j.status = 'processing';
    PERFORM FROM asyncjobs.limit_keys AS k WHERE k.key = _key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    _now := asyncjobs.moment();
    _until := _now + make_interval(secs => _seconds);
    UPDATE asyncjobs.limit_keys AS k
    SET (closed_until, closed_seconds, closed_by) = (SELECT _until, _seconds, _id), tat = coalesce((
            SELECT greatest(k.tat, _until + make_interval(secs => (l.burst - 1) * l.every)) FROM asyncjobs.limits AS l
            WHERE l.kind = 'limit' AND l.name = asyncjobs.limit_name(_key) AND l.every IS NOT NULL), k.tat)
    WHERE k.key = _key AND (k.closed_until < _until OR k.closed_until IS NULL OR k.closed_until > _now + make_interval(secs => k.closed_seconds));
    RETURN true;
END $$;
