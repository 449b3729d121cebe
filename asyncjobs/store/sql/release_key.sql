-- Let a halted key go on without its head.
SELECT v.halted_id, v.queues FROM asyncjobs.release_key($1::text) AS v;
