-- `hold_lease` inside the caller's transaction. Texts only: the connection is the caller's. Nothing here is looked up by its search_path.
SELECT asyncjobs.hold_lease($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text::pg_catalog.int8,
    pg_catalog.make_interval(secs => $4::pg_catalog.text::pg_catalog.float8))::pg_catalog.text AS held;
