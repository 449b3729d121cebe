-- Enqueue inside the caller's transaction.
SELECT e.ids, e.existing, e.refused, e.statuses, NULL::bigint[] AS taken, NULL::bigint[] AS reserved, NULL::integer[] AS later
FROM asyncjobs.enqueue_here($1::text, $2::text) AS e;
