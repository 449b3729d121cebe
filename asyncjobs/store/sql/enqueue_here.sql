-- Enqueue inside the caller's transaction. Nothing here is looked up by the search_path of the caller's connection.
SELECT e.ids, e.existing, e.refused, e.statuses, NULL::pg_catalog.int8[] AS taken, NULL::pg_catalog.int8[] AS reserved,
    NULL::pg_catalog.int4[] AS later
FROM asyncjobs.enqueue_here($1::pg_catalog.text, $2::pg_catalog.text) AS e;
