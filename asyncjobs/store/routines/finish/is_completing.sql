-- Whether a transaction is open that has completed this job, or is about to. It holds the job's row for as long as its owner likes.
CREATE FUNCTION asyncjobs.is_completing(_id bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
          AND l.classid = (hashtext('asyncjobs.completing') & 2147483647)::oid AND l.objid = (_id & 2147483647)::oid AND l.objsubid = 2);
END $$;
