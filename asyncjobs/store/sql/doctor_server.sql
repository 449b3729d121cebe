-- What the server says of itself: whose connection this is, at which isolation level a session begins that asks for none, its clock,
-- its connections, and whether it vacuums.
SELECT pg_catalog.pg_backend_pid() AS backend_pid, pg_catalog.clock_timestamp() AS now,
    (SELECT pg_catalog.count(1) FROM pg_catalog.pg_stat_activity AS a WHERE a.backend_type = 'client backend') AS connections,
    pg_catalog.current_setting('max_connections')::integer AS max_connections,
    pg_catalog.current_setting('autovacuum')::boolean AS autovacuum,
    pg_catalog.current_setting('default_transaction_isolation') AS isolation
