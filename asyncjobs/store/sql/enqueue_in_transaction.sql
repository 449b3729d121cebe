-- Enqueue inside the caller's transaction. The answer is one text: what the caller's connection makes of numbers, arrays and JSON is its.
-- Nothing here is looked up by the search_path of the caller's connection.
SELECT pg_catalog.row_to_json(e)::pg_catalog.text AS answer
FROM (SELECT h.ids, h.existing, h.did, h.refused, h.statuses
    FROM asyncjobs.enqueue_in_transaction($1::pg_catalog.text, $2::pg_catalog.text) AS h) AS e;
