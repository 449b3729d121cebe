-- Ids for jobs to be: known before the insert, so that an insert whose answer was lost can be made again.
SELECT ARRAY(SELECT pg_catalog.nextval('asyncjobs.jobs_id_seq') FROM pg_catalog.generate_series(1, $1::integer)) AS ids;
