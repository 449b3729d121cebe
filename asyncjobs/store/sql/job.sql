-- One job, whatever it waits for.
SELECT j.* FROM asyncjobs.readable_jobs AS j WHERE j.id = $1;
