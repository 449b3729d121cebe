-- One NOTIFY for each payload. On the notifier's own connection: NOTIFY takes a lock of the whole cluster until its commit. Nobody
-- misses one that a crash of the server swallows, since it ends every LISTEN, too: so the commit does not wait for the disk, which
-- the next enqueue wants.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true), pg_catalog.pg_notify($1::text, payload)
FROM pg_catalog.unnest($2::text[]) AS payload
