-- The status and the serialization key of a job, also while it waits in its line; no row when there is none.
CREATE FUNCTION asyncjobs.status_and_key(_id bigint) RETURNS TABLE (status text, serialization_key text) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.status, j.serialization_key FROM asyncjobs.jobs AS j WHERE j.id = _id
    UNION ALL
    SELECT 'waiting', s.serialization_key FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id AND s.job_id IS NULL
    LIMIT 1;
END;
