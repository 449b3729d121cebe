-- Whether there are jobs with a place in a line, or that should have one; jobs with a dedup key; blocked ones; and those of limits.
SELECT coalesce(pg_catalog.bool_or(j.serialization_key IS NOT NULL OR j.status = 'waiting'), false) AS keyed,
    coalesce(pg_catalog.bool_or(j.dedup_key IS NOT NULL), false) AS deduplicated,
    coalesce(pg_catalog.bool_or(j.status = 'blocked'), false) AS blocked,
    coalesce(pg_catalog.bool_or(j.limit_key IS NOT NULL), false) AS limited
FROM asyncjobs.jobs AS j;
