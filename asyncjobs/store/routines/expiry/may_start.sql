-- Whether a job that is pending may be started now. Inlined, so it carries no SET; one that never expires pays for a test for null.
CREATE FUNCTION asyncjobs.may_start(_start_before timestamptz) RETURNS boolean LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN _start_before IS NULL OR _start_before > asyncjobs.moment();
