-- Enqueue inside the caller's transaction; the fourth column is the status of the first job that made it refuse.
SELECT e.ids, e.existing, e.duplicates,
    (SELECT j.status FROM asyncjobs.jobs AS j WHERE j.id = e.ids[e.duplicates[1]]) AS status
FROM asyncjobs.enqueue_here($1::text, $2::text) AS e;
