-- Have every start of a job with a limit looked at, for the auditor.
CREATE OR REPLACE TRIGGER audit_limits AFTER INSERT OR UPDATE OF status ON asyncjobs.jobs
    FOR EACH ROW WHEN (NEW.limit_key IS NOT NULL AND NEW.status = 'processing') EXECUTE FUNCTION asyncjobs.audit_limits();
