-- Run a job again, or now.
SELECT v.outcome, v.was, v.other_id, v.queues FROM asyncjobs.retry_job($1::bigint, $2::text) AS v;
