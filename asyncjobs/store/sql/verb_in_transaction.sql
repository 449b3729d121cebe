-- A verb in the caller's transaction. Texts only: the connection is the caller's. Nothing here is looked up by its search_path.
SELECT asyncjobs.verb_in_transaction($1::pg_catalog.text, $2::pg_catalog.text) AS done;
