-- Dead letters that are not acknowledged, and the database's time.
SELECT pg_catalog.count(1) AS count, asyncjobs.clock() AS now FROM asyncjobs.dead_letter_jobs AS d WHERE NOT d.acknowledged;
