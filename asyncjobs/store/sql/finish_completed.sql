-- One call of a runner: attempts that completed, and one scan. Ids and tokens come as text: of 50 of each asyncpg took 105 us to make
-- arrays, and takes 79 so; the server takes the same.
SELECT f.kind, f.scan, f.queue, f.id, f.token, f.type, f.version, f.payload, f.priority, f.place, f.attempts, f.max_attempts,
    f.scheduled_epoch, f.run_epoch,
    f.started_epoch, f.created_epoch, f.serialization_key, f.rest
FROM asyncjobs.finish_completed($1, $2::text::bigint[], $3::text::bigint[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
    $15::text::bigint[], $16) AS f;
