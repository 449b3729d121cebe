-- What is paused, since when and why.
SELECT p.kind, p.name, p.reason, p.paused_by, asyncjobs.instant(p.paused_at) AS paused_at FROM asyncjobs.pauses AS p ORDER BY p.paused_at, p.kind, p.name;
