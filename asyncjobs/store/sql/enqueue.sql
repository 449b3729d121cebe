-- Enqueue rows: lists of JSON, which leave out what is as usual.
SELECT e.ids, e.existing, e.did, e.refused, e.statuses, e.taken, e.reserved, e.later
FROM asyncjobs.enqueue_rows($1, $2, asyncjobs.read_rows($3), true, $4, $5, $6) AS e;
