-- Forget all jobs, and what is kept of them and of their keys, for tests. Ids go on.
TRUNCATE asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.dispatch_requests, asyncjobs.dedup_keys, asyncjobs.replacements,
    asyncjobs.dead_letter_jobs, asyncjobs.pauses, asyncjobs.holds, asyncjobs.job_metrics, asyncjobs.job_depths;
