-- End at most 1,000 jobs that have expired while they were pending, for a claim that met one (of `_scan`). It asks the index of what is
-- due: so it is no walk along the queues. The row is one of the claim's answer: 'expired'; behind which place the scan is to go on
-- (`past_expired`; none of suspects); and in `rest` ids and types, and the queues where next heads of keys became pending.
CREATE FUNCTION asyncjobs.expire_pending(
    _scan integer, _queue text, _lane text, _from_priority integer, _from_place bigint, _types text[], _suspects boolean, _versions jsonb)
RETURNS asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _row asyncjobs.answer;
BEGIN
    _row.kind := 'expired'; _row.scan := _scan;
    IF NOT _suspects THEN
        SELECT p._priority, p._place INTO _row.priority, _row.place
        FROM asyncjobs.past_expired(_queue, _lane, _types, _versions, 10000, _from_priority, _from_place) AS p;
    END IF;
    SELECT jsonb_build_object('ended', coalesce(e.ended, '[]'), 'queues', coalesce(e.queues, '{}')) INTO _row.rest
    FROM asyncjobs.end_idle(ARRAY(
        SELECT j.id FROM asyncjobs.due_jobs AS j WHERE j.due_at <= _now AND j.status = 'pending'
        ORDER BY j.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED), 'cancelled', 'expired', 0) AS e;
    RETURN _row;
END $$;
