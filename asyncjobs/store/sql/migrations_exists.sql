-- Whether the ledger exists, whether a relation of its name is somebody else's, which process says so, at which isolation level,
-- and the schema whose tables the functions work on: another than this one when the schema was renamed or copied. ($1: its name)
SELECT coalesce(pg_catalog.bool_or(l.columns = 3), false) AS ledger, coalesce(pg_catalog.bool_or(l.columns < 3), false) AS other,
    EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname = $1) AS schema,
    pg_catalog.pg_backend_pid() AS pid, pg_catalog.current_setting('transaction_isolation') AS isolation,
    (SELECT pg_catalog.replace(pg_catalog.substring(p.prosrc, 'UPDATE "((?:[^"]|"")+)"[.]jobs'), '""', '"')
     FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proname = 'ack' LIMIT 1) AS home
FROM (SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a
              WHERE a.attrelid = c.oid AND a.attname IN ('number', 'name', 'breaking')) AS columns
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = 'migrations') AS l;
