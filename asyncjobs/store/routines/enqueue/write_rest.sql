-- Rows that `write_jobs` has passed over, since other rows have their ids. That is as it should be when an earlier call was committed only
-- while this one waited for it. Else ids that were drawn here are drawn anew, and reserved ones are an error: made again, the call says which.
CREATE FUNCTION asyncjobs.write_rest(
    INOUT ids bigint[], INOUT new bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _existing integer[], _own boolean, _draws boolean,
    _now timestamptz)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _tries integer := 0;
BEGIN
    WHILE EXISTS (
        SELECT FROM unnest(new, _tokens) AS r(id, token)
        WHERE r.id IS NOT NULL
          AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[r.id]) AND j.enqueue_token = r.token))
    LOOP
        IF NOT _draws OR _tries > 2 THEN
            RAISE EXCEPTION 'a reserved id belongs to another job' USING ERRCODE = 'serialization_failure';
        END IF;
        _tries := _tries + 1;
        SELECT d.ids, d.new INTO ids, new FROM asyncjobs.draw_again(ids, new, _tokens, _rows, _existing) AS d;
        PERFORM asyncjobs.write_jobs(new, _tokens, _rows, _own, _now);
    END LOOP;
    PERFORM asyncjobs.end_dedup(ARRAY(  -- jobs of the other try that have ended, or started, would keep them for ever
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (new) AND (j.status IN ('completed', 'dead', 'cancelled') OR (j.dedup_until = 'start' AND j.attempts > 0))));
END $$;
