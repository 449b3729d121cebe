-- `hold_lease` inside the caller's transaction. Texts only: the connection is the caller's.
SELECT asyncjobs.hold_lease($1::text, $2::text, $3::text::bigint, pg_catalog.make_interval(secs => $4::text::float8))::text AS held;
