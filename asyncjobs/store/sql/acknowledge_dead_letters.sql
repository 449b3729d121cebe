-- Acknowledge dead letters; those that were so already stay as they are. `is_new` is false for them.
SELECT a.dead_letter_id, a.job_id, a.is_new, a.acknowledged_by, a.acknowledged_at
FROM asyncjobs.acknowledge_dead_letters($1::bigint[], $2::text) AS a
