-- Notify, with the commit of this transaction, what was just enqueued in it: the queues of jobs that are due, and the promoters when
-- something is due soon, or expires soon. Later ones are found by the promoters' interval. A job that was replaced and is due became pending here, or, if
-- it was delayed and has a key, is left to the promoters.
CREATE FUNCTION asyncjobs.announce(_rows asyncjobs.new_job[], _existing integer[], _now timestamptz) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.tell(n.payload) FROM (
        SELECT DISTINCT p.payload
        FROM unnest(_rows) WITH ORDINALITY AS r
        CROSS JOIN LATERAL (SELECT coalesce(r.run_at, _now + make_interval(secs => r.delay_seconds), _now) AS due_at) AS d
        CROSS JOIN LATERAL (SELECT coalesce(r.ordinality = ANY (_existing), false) AS met) AS m
        CROSS JOIN LATERAL (VALUES
            (CASE WHEN d.due_at > _now OR m.met OR r.expires_seconds < 10 THEN 'd' END),
            (CASE WHEN d.due_at <= _now THEN CASE WHEN r.priority < 100 THEN 'f:' ELSE 'q:' END || r.queue END)) AS p(payload)
        WHERE p.payload IS NOT NULL AND coalesce(r.notify, true) AND d.due_at < _now + interval '10 seconds' AND (r.on_duplicate = 'replace' OR NOT m.met)) AS n;
END $$;
