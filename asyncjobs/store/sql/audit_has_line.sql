-- Whether the auditor's notes are kept here: those on lines come with the others. ($1: the schema's name)
SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'audit_line') AS found;
