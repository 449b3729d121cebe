-- See to it that places which are drawn from now on come after those of these keys' lines. The keys are locked.
CREATE FUNCTION asyncjobs.check_places(_keys text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _last bigint := pg_sequence_last_value('asyncjobs.place_seq'::regclass);
BEGIN
    IF EXISTS (SELECT FROM unnest(_keys) AS k(key) CROSS JOIN LATERAL (
        SELECT FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key AND s.place > coalesce(_last, 0) LIMIT 1) AS s) THEN
        PERFORM asyncjobs.move_sequences();
    END IF;
END $$;
