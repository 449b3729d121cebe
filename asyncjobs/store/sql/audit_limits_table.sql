-- Where the auditor notes which starts were more than a limit allowed: whether they were is seen at their instant alone.
CREATE TABLE IF NOT EXISTS asyncjobs.audit_limits (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id    bigint NOT NULL,
    name      text NOT NULL,
    running   bigint NOT NULL,
    most      integer NOT NULL
);
