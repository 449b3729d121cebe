-- Let go the key of a job that ended without doing so.
SELECT asyncjobs.release_ended($1::bigint) AS queues;
