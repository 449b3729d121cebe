-- How many attempts were counted for these jobs. ($1: their ids)
SELECT j.id, j.attempts, j.status FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1::bigint[]) ORDER BY j.id;
