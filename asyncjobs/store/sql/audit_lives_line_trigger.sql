-- The same of those that join a line.
CREATE OR REPLACE TRIGGER audit_lives AFTER INSERT ON asyncjobs.serialized_jobs
    FOR EACH ROW WHEN (NEW.dedup_key IS NOT NULL) EXECUTE FUNCTION asyncjobs.audit_lives();
