-- How many jobs of a queue, type or key run, those of runners that may be dead among them.
SELECT pg_catalog.count(1) AS count FROM asyncjobs.jobs AS j
WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
    AND $2::text = CASE $1::text WHEN 'queue' THEN j.queue WHEN 'type' THEN j.type WHEN 'key' THEN j.serialization_key ELSE $2::text END;
