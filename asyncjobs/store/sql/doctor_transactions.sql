-- Transactions of this database that hold back vacuum for longer than $1 seconds, the oldest first.
SELECT a.pid, coalesce(a.application_name, '') AS application, coalesce(a.state, '') AS state,
    extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8 AS age_seconds, a.query_start
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid()
    AND a.xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $1::float8)
ORDER BY a.xact_start LIMIT 10
