-- Make a schedule's job now.
SELECT r.id, r.created, r.queue FROM asyncjobs.run_schedule($1::text) AS r;
