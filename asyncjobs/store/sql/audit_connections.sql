-- Connections of asyncjobs to this database that are open, the asker's own apart, with their state (P13).
SELECT a.pid, a.application_name, a.state
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.application_name LIKE 'asyncjobs %' AND a.pid <> pg_catalog.pg_backend_pid()
ORDER BY a.pid;
