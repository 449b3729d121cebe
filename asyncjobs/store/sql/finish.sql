-- One call of a runner: acks, next heads, claims.
SELECT f.kind, f.scan, f.queue, f.id, f.token, f.type, f.version, f.payload, f.priority, f.place, f.attempts, f.max_attempts,
    f.scheduled_epoch, f.run_epoch,
    f.started_epoch, f.created_epoch, f.serialization_key, f.rest
FROM asyncjobs.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS f;
