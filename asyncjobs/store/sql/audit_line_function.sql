-- Note that a job got its place in its key's line, for the auditor.
CREATE OR REPLACE FUNCTION asyncjobs.audit_line() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.audit_line (serialization_key, job_id, place) VALUES (NEW.serialization_key, NEW.id, NEW.place);
    RETURN NULL;
END $$;
