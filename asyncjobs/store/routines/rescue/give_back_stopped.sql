-- Give back, with its attempt, a job (processing, and locked) that a runner left which had stopped by itself. The token goes, as in
-- `fail_lost`. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.give_back_stopped(_id bigint, _max_errors integer) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _token bigint := (SELECT j.claim_token FROM asyncjobs.jobs AS j WHERE j.id = _id);
    _pending bigint[];
BEGIN
    SELECT a.pending INTO _pending
    FROM asyncjobs.ack(ARRAY[_id], ARRAY[_token], ARRAY['{"status": "pending", "refund": true}'], NULL, _max_errors) AS a;
    UPDATE asyncjobs.jobs AS j SET claim_token = NULL, started_at = NULL WHERE j.id = _id AND j.status IN ('pending', 'paused');
    RETURN _pending;
END $$;
