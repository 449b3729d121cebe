-- Of the jobs $1 those that have ended, and, if $2, those that are not there (without a status): what a caller that waits for many looks at.
-- They are looked up by the 500 (OFFSET), in the order of the index: of 10,000 the planner may think that reading the whole table is
-- cheaper, and one by one they take three times as long.
SELECT o.id, o.status, o.type, o.result, o.result_dropped
FROM pg_catalog.generate_series(1, pg_catalog.cardinality($1::bigint[]), 500) AS g(at) CROSS JOIN LATERAL (
    SELECT j.id, j.status, j.type, j.result, j.result_dropped FROM asyncjobs.jobs AS j
    WHERE j.id = ANY (($1::bigint[])[g.at : g.at + 499]) AND j.status || '' = ANY ('{completed,dead,cancelled}'::text[]) OFFSET 0) AS o
UNION ALL
SELECT w.id, NULL, NULL, NULL, NULL
FROM pg_catalog.unnest($1::bigint[]) AS w(id)
LEFT JOIN LATERAL (SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = w.id OFFSET 0) AS j ON true
WHERE $2::boolean AND j.id IS NULL
