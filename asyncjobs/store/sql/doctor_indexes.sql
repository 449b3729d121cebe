-- The indexes of the schema ($1), and whether they are in use.
SELECT c.relname AS name, i.indisvalid AS valid
FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text ORDER BY c.relname
