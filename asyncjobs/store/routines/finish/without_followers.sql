-- Jobs that this transaction has made pending, without those followers that wait again: they were given back, and are not heads.
CREATE FUNCTION asyncjobs.without_followers(_pending bigint[], _followers bigint[], _written bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _back bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_followers) AND j.claim_token = ANY (_written) AND j.status NOT IN ('completed', 'dead', 'cancelled'));
    _heads bigint[];
BEGIN
    IF cardinality(_back) = 0 THEN
        RETURN _pending;
    END IF;
    _heads := asyncjobs.wait_again(_back);
    RETURN ARRAY(SELECT u.id FROM unnest(_pending) AS u(id) WHERE u.id <> ALL (_back) OR u.id = ANY (_heads));
END $$;
