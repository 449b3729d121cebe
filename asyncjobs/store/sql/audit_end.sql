-- Write down what came of a verb.
UPDATE asyncjobs.audit AS a SET outcome = $2::text, ended_at = clock_timestamp() WHERE a.id = $1::bigint
