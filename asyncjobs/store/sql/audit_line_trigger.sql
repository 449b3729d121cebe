-- Have every place noted that is drawn in a key's line, for the auditor.
CREATE OR REPLACE TRIGGER audit_line AFTER INSERT OR UPDATE OF place ON asyncjobs.serialized_jobs
    FOR EACH ROW WHEN (NEW.place IS NOT NULL) EXECUTE FUNCTION asyncjobs.audit_line();
