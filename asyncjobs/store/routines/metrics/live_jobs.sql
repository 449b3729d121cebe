-- What is not finished, by what is read of it: the partial indexes, and never the finished rows. `since` is when it was due, started
-- or, waiting, blocked or paused, made.
CREATE VIEW asyncjobs.live_jobs AS
SELECT 'pending' AS kind, j.queue, j.type, j.version, j.status, j.run_at AS since FROM asyncjobs.jobs AS j WHERE j.status = 'pending' AND j.limit_key IS NULL
UNION ALL
SELECT 'pending', j.queue, j.type, j.version, j.status, j.run_at FROM asyncjobs.jobs AS j
WHERE j.status = 'pending' AND j.limit_key IS NOT NULL
UNION ALL
SELECT 'due', j.queue, j.type, j.version, j.status, j.run_at FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed')
UNION ALL
SELECT 'paused', j.queue, j.type, j.version, j.status, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'paused'
UNION ALL
SELECT 'processing', j.queue, j.type, j.version, j.status, j.started_at FROM asyncjobs.jobs AS j
WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
UNION ALL
SELECT 'waiting', j.queue, j.type, j.version, j.status, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'waiting'
UNION ALL
SELECT 'blocked', j.queue, j.type, j.version, j.status, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'blocked';
