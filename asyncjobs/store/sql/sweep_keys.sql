-- A page of keys: which are stalled, which hold on to an ended job; jobs in no line; and the requests to dispatch, at most $4.
SELECT l.stalled, l.ended, l.last, l.lost, l.last_waiting, r.ids AS request_ids, r.keys AS request_keys
FROM asyncjobs.look_at_keys($1::text, $2::jsonb, $3::integer) AS l
CROSS JOIN (SELECT pg_catalog.array_agg(q.id) AS ids, pg_catalog.array_agg(q.serialization_key) AS keys FROM (
    SELECT d.id, d.serialization_key FROM asyncjobs.dispatch_requests AS d ORDER BY d.id LIMIT $4::integer) AS q) AS r;
