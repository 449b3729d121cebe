-- What is not finished, of each kind at most $1 jobs counted; and what the roll-up knows of the others.
SELECT d.queue, d.type, d.status, d.count, d.oldest_at, d.unserved, d.counted_at, d.is_partial
FROM asyncjobs.depths($1::integer) AS d ORDER BY d.queue, d.type, d.status;
