-- Which workflow an earlier call has written with these members, of which this is the first: null if none was committed.
CREATE FUNCTION asyncjobs.written_workflow(_job bigint, _token bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT m.workflow_id FROM asyncjobs.members AS m
        JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[m.job_id]) AND j.enqueue_token = _token WHERE m.job_id = _job);
END $$;
