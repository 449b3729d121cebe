-- How many keys were halted by a dead job, from the index of heads: what waits behind them is not read.
SELECT pg_catalog.count(1) AS count FROM asyncjobs.serialized_jobs AS s WHERE s.dispatched_at IS NOT NULL AND s.halted_at IS NOT NULL;
