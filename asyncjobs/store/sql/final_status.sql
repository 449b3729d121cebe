-- Whether a job is there, and whether it ended: what a waiter polls.
SELECT j.status FROM asyncjobs.jobs AS j WHERE j.id = $1;
