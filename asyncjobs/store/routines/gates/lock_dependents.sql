-- Lock at most 500 dependents of these gates that are in this state, and that nobody else has locked; returns their ids. Those whose
-- row is gone (a stranger deleted it) wait no more.
CREATE FUNCTION asyncjobs.lock_dependents(_gates bigint[], _state text) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _found bigint[] := ARRAY(
        SELECT d.job_id FROM asyncjobs.dependents AS d
        WHERE d.gate_id = ANY (_gates) AND d.state = _state GROUP BY d.job_id ORDER BY d.job_id LIMIT 500);
    _locked bigint[] := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_found) ORDER BY j.id FOR UPDATE SKIP LOCKED);
BEGIN
    IF cardinality(_locked) < cardinality(_found) THEN
        DELETE FROM asyncjobs.dependents AS d
        WHERE d.gate_id = ANY (_gates) AND d.job_id = ANY (_found)
          AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[d.job_id]));
    END IF;
    RETURN _locked;
END $$;
