-- One call of a runner: acks, next heads, claims.
SELECT f.kind, f.scan, f.queue, f.id, f.token, f.type, f.version, f.payload, f.priority, f.place, f.attempts, f.max_attempts,
    date_part('epoch', f.scheduled_at) AS scheduled_epoch, date_part('epoch', f.run_at) AS run_epoch,
    date_part('epoch', f.started_at) AS started_epoch, date_part('epoch', f.created_at) AS created_epoch, f.serialization_key, f.rest
FROM asyncjobs.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) AS f;
