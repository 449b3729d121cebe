-- One migrator at a time, until the end of the transaction: no session lock, which a pooler would strand.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('asyncjobs.migrations'), 0);
