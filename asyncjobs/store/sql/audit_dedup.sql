-- Dedup keys that are taken for ever, and live jobs whose key another enqueue could take (P1).
WITH live AS MATERIALIZED (
    SELECT j.id, j.type, j.dedup_key, j.dedup_until, j.status FROM asyncjobs.jobs AS j WHERE j.status NOT IN ('completed', 'dead', 'cancelled'))
SELECT 'P1' AS promise, d.job_id, 'ended and still holds dedup key ' || d.dedup_key AS problem
FROM asyncjobs.dedup_keys AS d WHERE d.live AND NOT EXISTS (SELECT FROM live WHERE live.id = d.job_id)
UNION ALL
SELECT 'P1', live.id, 'is live and does not hold its dedup key ' || live.dedup_key
FROM live WHERE live.dedup_key IS NOT NULL AND live.dedup_until IS NULL AND NOT EXISTS (
    SELECT FROM asyncjobs.dedup_keys AS d
    WHERE d.type = live.type AND d.dedup_key = live.dedup_key AND d.job_id = live.id AND d.live)
UNION ALL
SELECT 'dedup', d.job_id, 'was started and still holds dedup key ' || d.dedup_key
FROM asyncjobs.dedup_keys AS d JOIN live ON live.id = d.job_id
WHERE d.live AND live.dedup_until = 'start' AND live.status = 'processing'
ORDER BY 2, 3;
