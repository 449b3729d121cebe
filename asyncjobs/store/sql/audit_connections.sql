-- Connections of asyncjobs to this database that are open, the asker's own apart, with their state (P13). Asked of what the view
-- pg_stat_activity stands on: to join its four tables took a new connection three times as long.
SELECT a.pid, a.application_name, a.state
FROM pg_catalog.pg_stat_get_activity(NULL) AS a
WHERE a.application_name LIKE 'asyncjobs %' AND a.pid <> pg_catalog.pg_backend_pid()
    AND a.datid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
ORDER BY a.pid;
