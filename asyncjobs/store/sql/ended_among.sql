-- Of the jobs $1 those that have ended, and those that are not there (without a status): what a caller that waits for many looks at.
-- The row is looked up for each id by itself (OFFSET): of 10,000 ids the planner may think that reading the whole table is cheaper.
SELECT w.id, j.status, j.type, j.result, j.result_dropped
FROM pg_catalog.unnest($1::bigint[]) AS w(id)
LEFT JOIN LATERAL (
    SELECT o.status, o.type, o.result, o.result_dropped FROM asyncjobs.jobs AS o WHERE o.id = w.id OFFSET 0) AS j ON true
WHERE j.status IS NULL OR j.status = ANY ('{completed,dead,cancelled}'::text[]);
