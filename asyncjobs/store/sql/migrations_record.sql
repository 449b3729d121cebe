-- Record a migration, in its own transaction.
INSERT INTO asyncjobs.migrations (number, name, breaking) VALUES ($1, $2, $3);
