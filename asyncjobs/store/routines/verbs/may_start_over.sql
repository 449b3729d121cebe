-- Why a job that ended does not start over (null: it may, and has its dedup key again), and which other is in its way: 'duplicate', or what
-- `retry_refusal` says of a member.
CREATE FUNCTION asyncjobs.may_start_over(_id bigint, _was text, _type text, _dedup text, OUT outcome text, OUT other_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT r.outcome, r.other_id INTO outcome, other_id FROM asyncjobs.retry_refusal(_id) AS r;
    IF outcome IS NOT NULL OR _dedup IS NULL THEN
        RETURN;
    END IF;
    other_id := asyncjobs.take_dedup_key(_type, _dedup, _id, NULL, NULL, true);
    IF other_id <> _id THEN
        IF asyncjobs.having_status(ARRAY[_id], ARRAY[_was]) = '{}' THEN  -- it was pruned while its dedup key was waited for
            RAISE EXCEPTION 'job % moved on', _id USING ERRCODE = 'serialization_failure';
        END IF;
        outcome := 'duplicate';
    END IF;
END $$;
