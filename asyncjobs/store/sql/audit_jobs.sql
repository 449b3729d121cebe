-- What no claim, promote, rescue or verb would ever mend in `jobs`: limbo (P1), a token given twice (P2), uncounted attempts (P7); and
-- what was started although it had expired, or ended before it had (P18).
WITH job AS MATERIALIZED (
    SELECT j.id, j.status, j.run_at, j.attempts, j.max_attempts, j.claim_token, j.runner_id, j.start_before, j.started_at,
        j.created_at, j.completed_at, j.error_message,
        EXISTS (SELECT FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = j.id) AS has_dead_letter
    FROM asyncjobs.jobs AS j)
SELECT 'P1' AS promise, job.id AS job_id, 'is dead and has no dead letter' AS problem
FROM job WHERE job.status = 'dead' AND NOT job.has_dead_letter
UNION ALL
SELECT 'P1', job.id, 'is ' || job.status || ' and due never'
FROM job WHERE job.status IN ('scheduled', 'failed') AND NOT pg_catalog.isfinite(job.run_at)
UNION ALL
SELECT 'P1', job.id, 'is ' || job.status || ' and owned by runner ' || job.runner_id
FROM job WHERE job.runner_id IS NOT NULL AND job.status NOT IN ('processing', 'completed', 'dead', 'cancelled')
UNION ALL
SELECT 'P2', job.id, 'is processing under token ' || job.claim_token || ', as another job is'
FROM job WHERE job.status = 'processing'
    AND EXISTS (SELECT FROM job AS other WHERE other.claim_token = job.claim_token AND other.status = 'processing' AND other.id <> job.id)
UNION ALL
SELECT 'P7', job.id, 'spent ' || job.attempts || ' attempts of ' || job.max_attempts
FROM job WHERE job.attempts > greatest(job.max_attempts, 1)  -- (0 is what only SQL would write)
UNION ALL
SELECT 'P7', job.id, 'is ' || job.status || ' with no attempt left of ' || job.max_attempts
FROM job WHERE job.status IN ('pending', 'failed', 'scheduled') AND job.attempts >= greatest(job.max_attempts, 1)
UNION ALL
SELECT 'P7', job.id, 'is processing, and no attempt was counted'
FROM job WHERE job.status = 'processing' AND job.attempts = 0
UNION ALL
SELECT 'P18', job.id, 'was started at ' || job.started_at || ', and had expired at ' || job.start_before
FROM job WHERE job.started_at >= job.start_before AND job.started_at > greatest(job.run_at, job.created_at)
UNION ALL
SELECT 'P18', job.id, 'ended as expired at ' || job.completed_at || ', before ' || job.start_before
FROM job WHERE job.status = 'cancelled' AND job.error_message = 'expired' AND job.completed_at < job.start_before
ORDER BY 2, 1;
