-- Settle a job that was completed inside its handler's transaction, if that was committed.
SELECT s.completed, s.queues FROM asyncjobs.verify_completed($1, $2) AS s;
