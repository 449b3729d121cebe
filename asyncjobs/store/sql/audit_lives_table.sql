-- Where the auditor notes when jobs with a dedup key live: their rows tell how they ended, not what was there meanwhile.
CREATE TABLE IF NOT EXISTS asyncjobs.audit_lives (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type      text NOT NULL,
    dedup_key text NOT NULL,
    job_id    bigint NOT NULL,
    is_live   boolean NOT NULL
);
