-- Whether the term lasts; if so its lease stays as it is until the end of the transaction, which may idle for as long as is given.
SELECT asyncjobs.hold_lease($1::pg_catalog.text, $2::pg_catalog.text, $3::bigint, pg_catalog.make_interval(secs => $4::pg_catalog.float8)) AS held
