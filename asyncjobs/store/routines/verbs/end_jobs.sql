-- End many jobs in one transaction; the rows first, in the order of their ids, then all keys. Line by line, from the last to the first:
-- what waits is ended before the head of its key, which would otherwise dispatch one after the other.
CREATE FUNCTION asyncjobs.end_jobs(_ids bigint[], _request text, _message text, _max_errors integer)
RETURNS TABLE (id bigint, outcome text, was text, queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM asyncjobs.lock_in_order(_ids, '{blocked,scheduled,pending,processing,failed,completed,dead,cancelled,paused}', ARRAY(
        SELECT DISTINCT j.serialization_key FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.serialization_key IS NOT NULL AND j.status NOT IN ('completed', 'dead', 'cancelled')));
    FOR id IN
        SELECT u.id FROM unnest(_ids) AS u(id)
        ORDER BY (SELECT j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = u.id) COLLATE "C", u.id DESC
    LOOP
        SELECT e.outcome, e.was, e.queues INTO outcome, was, queues FROM asyncjobs.end_job(id, _request, _message, _max_errors) AS e;
        RETURN NEXT;
    END LOOP;
END $$;
