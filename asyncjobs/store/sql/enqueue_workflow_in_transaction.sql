-- Write a workflow in a caller's transaction; one text comes back, whatever the driver.
SELECT pg_catalog.to_json(w)::text AS answer FROM asyncjobs.enqueue_members(
    $1::pg_catalog.text, ARRAY(SELECT d.document::pg_catalog.text FROM pg_catalog.json_array_elements($2::pg_catalog.json) AS d(document)),
    $3::pg_catalog.text) AS w;
