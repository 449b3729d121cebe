-- Cancel a job, or ask the one that runs it.
SELECT v.outcome, v.was, v.queues FROM asyncjobs.cancel_job($1::bigint, $2::text) AS v;
