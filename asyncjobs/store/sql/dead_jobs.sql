-- Dead jobs in the order in which they died, of one key or type if given: the order in which a key ran them.
SELECT j.id FROM asyncjobs.jobs AS j JOIN asyncjobs.dead_letter_jobs AS d ON d.job_id = j.id AND NOT d.acknowledged
WHERE j.status = 'dead' AND ($1::text IS NULL OR j.serialization_key = $1::text) AND ($2::text IS NULL OR j.type = $2::text)
ORDER BY d.died_at, d.id LIMIT $3::integer;
