-- Make a batch of due jobs pending, and say what is due next.
SELECT p.promoted, p.queues, p.urgent_queues, p.keys, p.next_due_seconds, p.skipped, p.reached_at, p.scan_seconds, p.expired, p.opened
FROM asyncjobs.promote($1::integer, $2::timestamptz, $3::text[], $4::bigint[], $5::bigint[]) AS p
