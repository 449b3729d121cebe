-- The ledgers of migrations and routines that were applied. They exist before the first of them.
CREATE TABLE IF NOT EXISTS asyncjobs.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    breaking   boolean NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
CREATE TABLE IF NOT EXISTS asyncjobs.routines (
    name       text PRIMARY KEY,
    hash       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
