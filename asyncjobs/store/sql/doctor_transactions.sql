-- Sessions of this database that hold back vacuum for longer than $1 seconds, the oldest first: transactions, and sessions whose client does
-- not read what it is sent, in the middle of which they hold a snapshot. `held`: how many transactions vacuum stands back for it.
SELECT s.pid, coalesce(s.application_name, '') AS application, coalesce(s.state, '') AS state,
    extract(epoch FROM pg_catalog.clock_timestamp() - s.since)::float8 AS age_seconds, s.query_start, pg_catalog.age(s.backend_xmin) AS held,
    s.unread
FROM (
    SELECT a.pid, a.application_name, a.state, a.query_start, a.backend_xmin, a.state = 'idle' AS unread,
        CASE WHEN a.state = 'idle' THEN a.state_change ELSE a.xact_start END AS since
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid()
        AND CASE WHEN a.state = 'idle' THEN a.backend_xmin IS NOT NULL AND a.wait_event = 'ClientWrite' ELSE a.xact_start IS NOT NULL END) AS s
WHERE s.since < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $1::float8)
ORDER BY s.since LIMIT 10
