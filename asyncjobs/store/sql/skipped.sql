-- Scans that would find a job if no rows were locked.
SELECT s.queue, s.lane FROM asyncjobs.skipped($1, $2, $3, $4, $5, $6, $7) AS s;
