-- Enqueue inside the caller's transaction. The answer is one text: what the caller's connection makes of numbers, arrays and JSON is its.
SELECT pg_catalog.row_to_json(e)::text AS answer
FROM (SELECT h.ids, h.existing, h.refused, h.statuses FROM asyncjobs.enqueue_here($1::text, $2::text) AS h) AS e;
