-- enqueue_one for a row that asks for nothing special: what it leaves to the columns' defaults is neither sent, read nor converted.
INSERT INTO asyncjobs.jobs (id, enqueue_token, type, queue, payload, status)
VALUES ($1, $2, $3::text, $4, $5::text::jsonb,
    CASE WHEN EXISTS (SELECT FROM asyncjobs.pauses) AND asyncjobs.is_paused($3::text, NULL) THEN 'paused' ELSE 'pending' END)
RETURNING pg_catalog.nextval('asyncjobs.jobs_id_seq') AS reserved
