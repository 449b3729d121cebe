-- Live and dead rows of the tables of the schema ($1), whether autovacuum leaves a table out, its indexes, and which of these are not in use.
SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
    coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false) AS left_out, i.names AS indexes, i.invalid
FROM pg_catalog.pg_stat_user_tables AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
    CROSS JOIN LATERAL (
        SELECT coalesce(pg_catalog.array_agg(x.relname::text), '{}') AS names,
            coalesce(pg_catalog.array_agg(x.relname::text) FILTER (WHERE NOT i.indisvalid), '{}') AS invalid
        FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid WHERE i.indrelid = s.relid) AS i
WHERE s.schemaname = $1::text ORDER BY s.relname
