-- Complete a job inside its handler's transaction. Nothing here is looked up by its connection's search_path.
SELECT asyncjobs.complete_here($1::bigint, $2::bigint, $3::pg_catalog.text, $4::pg_catalog.text) AS completed;
