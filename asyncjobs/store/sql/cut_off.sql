-- Which of these runners beat last by a session that has ended.
SELECT r.id FROM asyncjobs.runners AS r
WHERE r.id = ANY ($1::bigint[]) AND r.session IS NOT NULL
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = r.session)
