-- Note the start of a job with a limit if more run with it than the limit allows, for the auditor. In the claim's own transaction, which
-- has locked what it counts: so no other claim of the key, or of the total, is under way.
CREATE OR REPLACE FUNCTION asyncjobs.audit_limits() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.audit_limits (job_id, name, running, most)
    SELECT NEW.id, NEW.limit_key, r.running, l.each FROM asyncjobs.limits AS l CROSS JOIN LATERAL (
        SELECT count(1) AS running FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key = NEW.limit_key AND j.runner_id IS NOT NULL) AS r
    WHERE l.kind = 'limit' AND l.name = asyncjobs.limit_name(NEW.limit_key) AND r.running > l.each;
    INSERT INTO asyncjobs.audit_limits (job_id, name, running, most)
    SELECT NEW.id, l.name, asyncjobs.running_of(l.name, 2147483647), l.total FROM asyncjobs.limits AS l
    WHERE l.kind = 'limit' AND l.name = asyncjobs.limit_name(NEW.limit_key) AND asyncjobs.running_of(l.name, l.total + 1) > l.total;
    INSERT INTO asyncjobs.audit_limits (job_id, name, running, most)
    SELECT NEW.id, 'queue ' || l.name, r.running, l.total FROM asyncjobs.limits AS l CROSS JOIN LATERAL (
        SELECT count(1) AS running FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.queue = NEW.queue) AS r
    WHERE l.kind = 'queue' AND l.name = NEW.queue AND r.running > l.total;
    RETURN NULL;
END $$;
