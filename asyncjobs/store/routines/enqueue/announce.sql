-- Notify, with the commit of this transaction, what was just enqueued in it: the queues of jobs that are due, and the promoters when
-- something is due soon, or expires soon. Later ones are found by the promoters' interval. A job that was replaced and is due became pending
-- here, or, if it was delayed and has a key, is left to the promoters.
--
-- Of a queue it is told how many jobs, with a lot (runtime/herd.py). What is enqueued later in the same transaction calls all, which is one
-- notification however many such calls there are.
CREATE FUNCTION asyncjobs.announce(_rows asyncjobs.new_job[], _existing integer[], _now timestamptz) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _is_first boolean := current_setting('asyncjobs_notify.has_told', true) IS DISTINCT FROM 'on';
    _draw bigint := hashint8((extract(epoch FROM _now) * 1000000)::bigint)::bigint & 4294967295;
BEGIN
    PERFORM asyncjobs.tell(n.payload) FROM (
        SELECT p.kind || coalesce(CASE WHEN _is_first THEN count(*) || '.' || _draw ELSE '' END || ':' || p.queue, '') AS payload
        FROM unnest(_rows) WITH ORDINALITY AS r
        CROSS JOIN LATERAL (SELECT coalesce(r.run_at, _now + make_interval(secs => r.delay_seconds), _now) AS due_at) AS d
        CROSS JOIN LATERAL (SELECT coalesce(r.ordinality = ANY (_existing), false) AS met) AS m
        CROSS JOIN LATERAL (VALUES
            (CASE WHEN d.due_at > _now OR m.met OR r.expires_seconds < 10 THEN 'd' END, NULL),
            (CASE WHEN d.due_at <= _now THEN CASE WHEN r.priority < 100 OR m.met THEN 'f' ELSE 'q' END END, r.queue)) AS p(kind, queue)
        WHERE p.kind IS NOT NULL AND coalesce(r.notify, true) AND d.due_at < _now + interval '10 seconds' AND r.waits IS NOT TRUE
          AND (r.on_duplicate = 'replace' OR NOT m.met)
        GROUP BY p.kind, p.queue) AS n;
    PERFORM set_config('asyncjobs_notify.has_told', 'on', true);
END $$;
