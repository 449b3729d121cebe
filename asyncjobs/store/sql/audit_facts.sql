-- How many deadlocks the server has found in this database, ever, and when it wrote so (NULL since PostgreSQL 15: it tells at once);
-- and which tables have had a row since they were made or truncated, those of the auditor's notes among them (null: not kept here). What has not had any needs no look.
SELECT pg_catalog.pg_stat_get_db_deadlocks(d.oid) AS deadlocks,
    pg_catalog.statement_timestamp() AS asked_at, pg_catalog.pg_stat_get_snapshot_timestamp() AS written_at,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.jobs')) > 0 AS jobs,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.serialized_jobs')) > 0 AS places,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.dedup_keys')) > 0 AS dedup_keys,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.gates')) > 0 AS gates,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.limits')) > 0 AS limits,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.audit_limits')) > 0 AS noted_limits,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.audit_line')) > 0 AS noted_places,
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('asyncjobs.audit_lives')) > 0 AS noted_lives
FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database();
