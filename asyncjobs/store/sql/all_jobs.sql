-- Every job there is, for tests: in the order of their enqueues.
SELECT j.* FROM asyncjobs.readable_jobs AS j ORDER BY j.id;
