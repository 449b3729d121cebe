-- In what order jobs joined the lines of their keys. A job that joined more than once stands where it joined first.
SELECT l.serialization_key, l.job_id, min(l.place) AS place, count(*) AS times
FROM asyncjobs.audit_line AS l GROUP BY l.serialization_key, l.job_id ORDER BY l.serialization_key, 3;
