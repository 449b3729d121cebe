-- The ledger of routines that were applied, and of migrations, by the hashes of their texts. It exists before the first of them.
CREATE TABLE IF NOT EXISTS asyncjobs.routines (
    name       text PRIMARY KEY,
    hash       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
