-- A page of keys: which are stalled, which hold on to an ended job; jobs in no line; and the requests to dispatch, at most $4. And whether there
-- is anything to sweep of limits, and of workflows: most have neither, and their idle runners need not look for these.
SELECT l.stalled, l.ended, l.last, l.lost, l.last_waiting, r.ids AS request_ids, r.keys AS request_keys,
    EXISTS (SELECT FROM asyncjobs.limits) OR EXISTS (SELECT FROM asyncjobs.limit_turns) OR EXISTS (
        SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NOT NULL AND j.status = 'pending') AS has_limits,
    EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.ended_at IS NULL) OR EXISTS (SELECT FROM asyncjobs.arrivals)
        OR EXISTS (SELECT FROM asyncjobs.gates AS g WHERE g.releasing) AS has_workflows
FROM asyncjobs.look_at_keys($1::text, $2::jsonb, $3::integer) AS l
CROSS JOIN (SELECT pg_catalog.array_agg(q.id) AS ids, pg_catalog.array_agg(q.serialization_key) AS keys FROM (
    SELECT d.id, d.serialization_key FROM asyncjobs.dispatch_requests AS d ORDER BY d.id LIMIT $4::integer) AS q) AS r;
