-- Complete a job inside its handler's transaction. Texts only: the connection is the caller's. Nothing here is looked up by its
-- search_path.
SELECT asyncjobs.complete_in_transaction($1::pg_catalog.text::pg_catalog.int8, $2::pg_catalog.text::pg_catalog.int8, $3::pg_catalog.text,
    $4::pg_catalog.text, $5::pg_catalog.text, $6::pg_catalog.text::pg_catalog.bool)::pg_catalog.text AS completed;
