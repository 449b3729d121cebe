-- Take back a batch of jobs from runners that are gone.
SELECT r.rescued, r.dead, r.cancelled, r.given_back, r.queues, r.suspects, r.types, r.statuses, r.more FROM asyncjobs.rescue($1::integer, $2::integer, $3::bigint[], $4::bigint[]) AS r
