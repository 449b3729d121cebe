-- One NOTIFY for each payload. On the notifier's own connection: NOTIFY takes a lock of the whole cluster until its commit.
SELECT pg_catalog.pg_notify($1::text, payload) FROM pg_catalog.unnest($2::text[]) AS payload
