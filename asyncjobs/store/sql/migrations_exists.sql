-- Whether the ledger exists, whether a relation of its name is somebody else's, and which process says so. ($1: the schema's name)
SELECT coalesce(pg_catalog.bool_or(l.columns = 3), false) AS ledger, coalesce(pg_catalog.bool_or(l.columns < 3), false) AS other,
    EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname = $1) AS schema,
    pg_catalog.pg_backend_pid() AS pid
FROM (SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a
              WHERE a.attrelid = c.oid AND a.attname IN ('number', 'name', 'breaking')) AS columns
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = 'migrations') AS l;
