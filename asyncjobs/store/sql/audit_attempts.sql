-- How many attempts were counted for these jobs, and whether an operator started them over after their death. ($1: their ids)
SELECT j.id, j.attempts, j.status,
    EXISTS (SELECT FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = j.id AND d.requeued_as = j.id) AS is_started_over
FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1::bigint[]) ORDER BY j.id;
