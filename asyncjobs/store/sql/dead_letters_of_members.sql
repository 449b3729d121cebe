-- Those of these dead letters that are of members of workflows, which others may still wait for.
SELECT d.id, d.job_id FROM asyncjobs.dead_letter_jobs AS d JOIN asyncjobs.members AS m ON m.job_id = d.job_id WHERE d.id = ANY ($1::bigint[]);
