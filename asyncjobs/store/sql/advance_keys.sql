-- Dispatch the heads of keys that have none dispatched, and drop the requests for it.
SELECT a.heads, a.queues, a.blocked FROM asyncjobs.advance_keys($1::text[], $2::bigint[]) AS a;
