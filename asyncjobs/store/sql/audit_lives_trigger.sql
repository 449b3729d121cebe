-- Have every status noted of jobs with a dedup key, for the auditor.
CREATE OR REPLACE TRIGGER audit_lives AFTER INSERT OR UPDATE OF status ON asyncjobs.jobs
    FOR EACH ROW WHEN (NEW.dedup_key IS NOT NULL) EXECUTE FUNCTION asyncjobs.audit_lives();
