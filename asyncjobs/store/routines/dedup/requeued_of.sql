-- The jobs that were made of dead letters of these, and of theirs. (A dead letter of a job that was retried names that job itself.)
CREATE FUNCTION asyncjobs.requeued_of(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE made (id) AS (
            SELECT d.requeued_as FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = ANY (_ids) AND d.requeued_as <> d.job_id
            UNION
            SELECT d.requeued_as FROM made AS m JOIN asyncjobs.dead_letter_jobs AS d
                ON d.job_id = ANY (ARRAY[m.id]) AND d.requeued_as <> d.job_id)
        SELECT m.id FROM made AS m ORDER BY m.id);
END $$;
