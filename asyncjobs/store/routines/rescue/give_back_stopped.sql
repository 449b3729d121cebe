-- Give back, with its attempt, a job (processing, and locked) that a runner left which had stopped by itself. The token goes, as in
-- `fail_lost`. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.give_back_stopped(_id bigint, _max_errors integer) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _token bigint := (SELECT j.claim_token FROM asyncjobs.jobs AS j WHERE j.id = _id);
    _follows boolean := EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.dispatched_at IS NULL);
    _pending bigint[];
BEGIN
    SELECT a.pending INTO _pending
    FROM asyncjobs.ack(ARRAY[_id], ARRAY[_token], ARRAY[CASE WHEN _follows THEN '{"status": "pending", "refund": true, "unbegun": true}'
        ELSE '{"status": "pending", "refund": true}' END], NULL, _max_errors, CASE WHEN _follows THEN ARRAY[_id] END) AS a;
    UPDATE asyncjobs.jobs AS j SET claim_token = NULL, started_at = NULL WHERE j.id = _id AND j.status IN ('pending', 'paused', 'waiting');
    RETURN _pending;
END $$;
