-- Cancel a batch of the jobs that wait for a key.
SELECT v.cancelled, v.head_id FROM asyncjobs.purge_key($1::text, $2::text, $3::integer) AS v;
