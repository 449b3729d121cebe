-- Statements that drop what former programs have made and this transaction has not made anew. ($1: the schema)
SELECT CASE p.prokind WHEN 'a' THEN 'DROP AGGREGATE ' ELSE 'DROP FUNCTION ' END || p.oid::regprocedure AS statement
FROM pg_catalog.pg_proc AS p JOIN asyncjobs.routines AS r ON r.name = p.proname
WHERE p.pronamespace = $1::regnamespace AND p.xmin <> pg_current_xact_id()::xid
UNION ALL
SELECT 'DROP VIEW ' || c.oid::regclass
FROM pg_catalog.pg_class AS c JOIN asyncjobs.routines AS r ON r.name = c.relname JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = c.oid
WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'v' AND w.xmin <> pg_current_xact_id()::xid
ORDER BY 1 DESC;  -- views first: they name functions
