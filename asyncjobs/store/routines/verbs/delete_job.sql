-- Delete a job that has ended, with its dead letters. One that has not is left as it is: an operator who wants it gone cancels it first. So is one
-- whose key, or whose runner, has not let it go yet (`busy`): the head of a halted key is released first.
CREATE FUNCTION asyncjobs.delete_job(_id bigint, OUT outcome text, OUT was text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _runner bigint;
BEGIN
    SELECT j.status, j.runner_id INTO was, _runner FROM asyncjobs.jobs AS j WHERE j.id = _id;
    IF was IN ('completed', 'dead', 'cancelled') THEN
        SELECT j.status, j.runner_id INTO was, _runner FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
    END IF;
    outcome := CASE WHEN was IS NULL THEN 'unknown' WHEN was NOT IN ('completed', 'dead', 'cancelled') THEN was
                    WHEN _runner IS NOT NULL OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = _id) THEN 'busy'
                    ELSE 'deleted' END;
    IF outcome = 'deleted' THEN
        DELETE FROM asyncjobs.jobs AS j WHERE j.id = _id;
        DELETE FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = _id;
    END IF;
END $$;
