-- Enqueue with a right to the door alone, on a connection of asyncjobs' own.
SELECT e.ids, e.existing, e.did, e.refused, e.statuses, e.taken, NULL::bigint[] AS reserved, e.later
FROM asyncjobs.enqueue_in_transaction($1::pg_catalog.text, NULL, $2::bigint[], $3::bigint[], true, $4::boolean, $5::pg_catalog.text) AS e;
