-- Delete a job that has ended.
SELECT v.outcome, v.was FROM asyncjobs.delete_job($1::bigint) AS v;
