-- End a session that listens, by its process $1. A process of the same number that is another session by now is left alone.
SELECT pg_catalog.pg_terminate_backend(a.pid) AS ended FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid = $1::integer AND a.application_name = 'asyncjobs listener' AND a.usename = current_user
