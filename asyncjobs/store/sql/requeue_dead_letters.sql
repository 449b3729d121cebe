-- Make new jobs of dead letters, but for those that were requeued before (unless $3), or whose dedup key a live job has.
SELECT r.dead_letter_id, r.outcome, r.job_id, r.new_id, r.status, r.queue, r.other_id
FROM asyncjobs.requeue_dead_letters($1::bigint[], $2::text, $3::boolean) AS r
