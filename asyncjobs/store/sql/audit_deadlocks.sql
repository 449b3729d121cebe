-- How many deadlocks the server has found in this database, ever, and when it wrote so (NULL since PostgreSQL 15: it tells at once).
SELECT d.deadlocks, pg_catalog.statement_timestamp() AS asked_at, pg_catalog.pg_stat_get_snapshot_timestamp() AS written_at
FROM pg_catalog.pg_stat_database AS d WHERE d.datname = pg_catalog.current_database();
