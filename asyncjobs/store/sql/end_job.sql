-- End a job, or fail its attempt; or ask the one that runs it.
SELECT v.outcome, v.was, v.queues FROM asyncjobs.end_job($1::bigint, $2::text, $3::text, $4::integer) AS v;
