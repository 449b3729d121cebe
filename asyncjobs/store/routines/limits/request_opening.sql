-- Leave it to the promoters to open the keys of those of these jobs that have a limit, after the commit: in any transaction, without a lock.
CREATE FUNCTION asyncjobs.request_opening(_ids bigint[], _freed boolean) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed)
    SELECT DISTINCT j.limit_key, j.queue, coalesce(j.lane, ''), _freed FROM asyncjobs.jobs AS j
    WHERE j.id = ANY (_ids) AND j.limit_key IS NOT NULL;
    IF FOUND THEN
        PERFORM asyncjobs.tell('d');
    END IF;
END $$;
