-- End many jobs, or ask those that run them.
SELECT v.id, v.outcome, v.was, v.queues FROM asyncjobs.end_jobs($1::bigint[], $2::text, $3::text, $4::integer) AS v;
