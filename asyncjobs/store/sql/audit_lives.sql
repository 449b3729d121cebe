-- When jobs with a dedup key lived, note by note. Of one that is gone nobody knows since when it has been.
SELECT l.number, l.type, l.dedup_key, l.job_id, l.is_live, NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = l.job_id) AS is_gone
FROM asyncjobs.audit_lives AS l ORDER BY l.number;
