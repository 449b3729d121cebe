-- End at most `_most` jobs that have expired while they were pending, for a claim that met one (of `_scan`). It asks the index of what is
-- due: so it is no walk along the queues. The row is one of the claim's answer: 'expired', and in `rest` ids and types, and the queues
-- where next heads of keys became pending.
CREATE FUNCTION asyncjobs.expire_pending(_most integer, _scan integer) RETURNS asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _row asyncjobs.answer;
BEGIN
    _row.kind := 'expired'; _row.scan := _scan;
    SELECT jsonb_build_object('ended', coalesce(e.ended, '[]'), 'queues', coalesce(e.queues, '{}')) INTO _row.rest
    FROM asyncjobs.end_idle(ARRAY(
        SELECT j.id FROM asyncjobs.due_jobs AS j WHERE j.due_at <= _now AND j.status = 'pending'
        ORDER BY j.due_at LIMIT _most FOR UPDATE SKIP LOCKED), 'cancelled', 'expired', 0) AS e;
    RETURN _row;
END $$;
