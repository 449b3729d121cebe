-- Whether the runner holds the lease in this term; and if so, holds its row until the end of the transaction: renewals pass, nobody
-- takes over. A process that is stopped in the middle of the transaction loses its connection before it could block for long.
CREATE FUNCTION asyncjobs.hold_lease(_duty text, _holder text, _token bigint, _idle interval) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM asyncjobs.background_job_leases AS l
    WHERE l.job_name = _duty AND l.held_by_worker_id = _holder AND l.token = _token FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', (extract(epoch FROM _idle) * 1000)::bigint::text, true);
    RETURN true;
END $$;
