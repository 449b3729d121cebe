-- See to it that places which are drawn from now on come after those of these keys' lines. The keys are locked. Only the sequence of
-- places is moved: that ids are behind is told by the call that meets another's.
CREATE FUNCTION asyncjobs.check_places(_keys text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _last bigint := coalesce(pg_sequence_last_value('asyncjobs.place_seq'::regclass), 0);
BEGIN
    IF EXISTS (SELECT FROM unnest(_keys) AS k(key) CROSS JOIN LATERAL (
        SELECT FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key AND s.place > _last LIMIT 1) AS s) THEN
        PERFORM setval('asyncjobs.place_seq', p.place + 1000) FROM (SELECT asyncjobs.last_place() AS place) AS p WHERE p.place > _last;
    END IF;
END $$;
