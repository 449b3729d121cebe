-- How many deadlocks the server has found in this database, ever.
SELECT d.deadlocks FROM pg_catalog.pg_stat_database AS d WHERE d.datname = pg_catalog.current_database();
