-- Every runner's beat, and whether a job is processed by a runner that does not exist: all a rescue has to know, in one statement.
-- The jobs are looked for in the gaps between the ids of the runners, so neither the jobs in flight nor the dead entries that acks
-- leave in the index under live runners' ids are read: the cost is one descent per runner.
WITH alive AS MATERIALIZED (SELECT r.id, r.beat FROM asyncjobs.runners AS r),
gaps AS (
    SELECT pg_catalog.lag(a.id, 1, -1::bigint) OVER (ORDER BY a.id) AS below, a.id AS above FROM alive AS a
    UNION ALL
    SELECT coalesce(pg_catalog.max(a.id), -1), 9223372036854775807 FROM alive AS a
)
SELECT coalesce((SELECT pg_catalog.array_agg(a.id ORDER BY a.id) FROM alive AS a), '{}'::bigint[]) AS ids,
       coalesce((SELECT pg_catalog.array_agg(a.beat ORDER BY a.id) FROM alive AS a), '{}'::bigint[]) AS beats,
       EXISTS (
           SELECT FROM gaps AS g CROSS JOIN LATERAL (
               SELECT FROM asyncjobs.jobs AS j
               WHERE j.runner_id > g.below AND j.runner_id < g.above AND j.status = 'processing'
               LIMIT 1
           ) AS orphan
       ) AS orphans
