-- Resume a key.
SELECT v.resumed, v.queues FROM asyncjobs.resume_key($1::text) AS v;
