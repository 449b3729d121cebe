-- Live and dead rows of the tables of the schema ($1), and whether autovacuum leaves a table out.
SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
    coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false) AS left_out
FROM pg_catalog.pg_stat_user_tables AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
WHERE s.schemaname = $1::text ORDER BY s.relname
