-- One ack that may meet a handler's open transaction: it gives up after a moment.
SELECT f.kind, f.id, f.queue FROM asyncjobs.finish_alone($1, $2, $3, $4, $5, $6) AS f;
