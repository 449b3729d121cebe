-- Change a job that waits.
SELECT v.outcome, v.was, v.queues FROM asyncjobs.change_job($1::bigint, $2::text::jsonb) AS v;
