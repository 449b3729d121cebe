-- Fold what was left behind at gates.
SELECT f.gates, f.queues, f.more FROM asyncjobs.fold_left_over($1::integer, $2::bigint[], $3::bigint[]) AS f;
