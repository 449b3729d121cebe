-- Where the auditor notes in what order jobs joined their keys' lines: the lines' rows are gone when their jobs have ended.
CREATE TABLE IF NOT EXISTS asyncjobs.audit_line (
    number            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    serialization_key text NOT NULL,
    job_id            bigint NOT NULL,
    place             bigint NOT NULL
);
