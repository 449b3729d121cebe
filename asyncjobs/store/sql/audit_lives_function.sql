-- Note that a job with a dedup key lives, or has ended, for the auditor. One that holds its key until its start has ended with that.
CREATE OR REPLACE FUNCTION asyncjobs.audit_lives() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.audit_lives (type, dedup_key, job_id, is_live)
    VALUES (NEW.type, NEW.dedup_key, NEW.id, NEW.status NOT IN ('completed', 'dead', 'cancelled') AND (NEW.dedup_until IS NULL OR (
        NEW.status <> 'processing'
        AND NOT EXISTS (SELECT FROM asyncjobs.audit_lives AS l WHERE l.job_id = NEW.id AND NOT l.is_live))));
    RETURN NULL;
END $$;
