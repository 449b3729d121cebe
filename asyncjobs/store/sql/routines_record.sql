-- Record routines or a migration, in the transaction in which they are made. ($1: their names, $2: the hashes of their texts)
INSERT INTO asyncjobs.routines AS r (name, hash) SELECT pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, applied_at = pg_catalog.now();
