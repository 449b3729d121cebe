-- The ledger of migrations that were applied. It exists before the first of them.
CREATE TABLE IF NOT EXISTS asyncjobs.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    breaking   boolean NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
