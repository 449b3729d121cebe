-- Enqueue inside the caller's transaction. Nothing here is looked up by the search_path of the caller's connection.
SELECT e.ids, e.existing, e.refused, e.statuses, NULL::bigint[] AS taken, NULL::bigint[] AS reserved
FROM asyncjobs.enqueue_here($1::pg_catalog.text, $2::pg_catalog.text) AS e;
