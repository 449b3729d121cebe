-- Write the dead letters of jobs that just died. How often their work was requeued, or started over, goes on from dead letter to dead letter.
CREATE FUNCTION asyncjobs.bury(_ids bigint[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _rest bigint[] := _ids;
BEGIN
    LOOP
        WITH written AS (
            INSERT INTO asyncjobs.dead_letter_jobs AS l (job_id, original_job, error_message, error_details, died_at, requeue_count)
            SELECT j.id,
                to_jsonb(j) - ARRAY['errors', 'claim_token', 'enqueue_token', 'runner_id', 'losses', 'suspicion', 'outlived', 'lost_with'],
                j.error_message,
                jsonb_build_object('errors', j.errors, 'attempts', j.attempts), j.completed_at,
                coalesce((SELECT max(d.requeue_count) FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = ANY (ARRAY[j.id, j.requeued_from])), 0)
            FROM asyncjobs.jobs AS j WHERE j.id = ANY (_rest) AND j.status = 'dead' ORDER BY j.id
            ON CONFLICT (id) DO NOTHING RETURNING l.job_id)
        SELECT array_agg(j.id) INTO _rest FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_rest) AND j.status = 'dead' AND j.id <> ALL (ARRAY(SELECT w.job_id FROM written AS w));
        EXIT WHEN _rest IS NULL;
        PERFORM asyncjobs.move_sequences();  -- the id of a dead letter belongs to another one
    END LOOP;
END $$;
