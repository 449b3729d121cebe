-- Whether the ledger exists, whether a relation of its name is somebody else's, which process says so, at which isolation level, the
-- schema whose tables the functions work on: another than this one when the schema was renamed or copied; whether this role may insert
-- jobs (null: there is no such table), and the first schema that names are looked up in, which may be a stranger's: so operators are
-- qualified here. ($1: the schema's name)
SELECT coalesce(pg_catalog.bool_or(l.columns OPERATOR(pg_catalog.=) 3), false) AS ledger,
    coalesce(pg_catalog.bool_or(l.columns OPERATOR(pg_catalog.<) 3), false) AS other,
    EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name) AS schema,
    pg_catalog.pg_backend_pid() AS pid, pg_catalog.current_setting('transaction_isolation') AS isolation,
    (SELECT pg_catalog.replace(pg_catalog.substring(p.prosrc, 'UPDATE "((?:[^"]|"")+)"[.]jobs'), '""', '"')
     FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
     WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND p.proname OPERATOR(pg_catalog.=) 'ack'::pg_catalog.name
     LIMIT 1) AS home,
    (SELECT pg_catalog.has_table_privilege(c.oid, 'INSERT')
     FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
     WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND c.relname OPERATOR(pg_catalog.=) 'jobs'::pg_catalog.name) AS inserts,
    (SELECT s.name FROM pg_catalog.unnest(pg_catalog.current_schemas(true)) AS s(name)
     WHERE NOT s.name OPERATOR(pg_catalog.~~) 'pg\_temp\_%'::pg_catalog.text LIMIT 1) AS first_schema
FROM (SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a
              WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attname OPERATOR(pg_catalog.=) ANY (ARRAY['number', 'name', 'breaking']::pg_catalog.name[])) AS columns
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
      WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND c.relname OPERATOR(pg_catalog.=) 'migrations'::pg_catalog.name) AS l;
