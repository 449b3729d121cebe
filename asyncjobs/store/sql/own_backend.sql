-- The process that executes this: another one than the connection was opened with says that there is a pooler in between.
SELECT pg_catalog.pg_backend_pid() AS pid
