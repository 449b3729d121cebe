-- Those of the jobs whose rows another transaction holds. Waits for none of them.
WITH free AS MATERIALIZED (SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED)
SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY ($1) AND NOT EXISTS (SELECT FROM free AS f WHERE f.id = j.id)
