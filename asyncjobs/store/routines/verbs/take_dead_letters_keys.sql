-- Take the dedup keys of these dead letters' jobs, each for a new id: `takers` says which, by dead letter, and `met` which live job has the key of
-- another dead letter.
CREATE FUNCTION asyncjobs.take_dead_letters_keys(_ids bigint[], _force boolean, OUT takers jsonb, OUT met jsonb) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _id bigint;
    _taker bigint;
    _other bigint;
BEGIN
    takers := '{}';
    met := '{}';
    FOR _row IN
        SELECT d.id, d.original_job ->> 'type' AS type, d.original_job ->> 'dedup_key' AS dedup_key FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_ids) AND (_force OR d.requeued_as IS NULL) AND d.original_job ->> 'dedup_key' IS NOT NULL
        ORDER BY d.original_job ->> 'type', d.original_job ->> 'dedup_key', d.id
    LOOP
        _id := nextval('asyncjobs.jobs_id_seq');
        _other := asyncjobs.take_dedup_key(_row.type, _row.dedup_key, _id, NULL, _taker, true);
        IF _other = _id THEN
            _taker := _id;
            takers := takers || jsonb_build_object(_row.id, _id);
        ELSE
            met := met || jsonb_build_object(_row.id, _other);
        END IF;
    END LOOP;
END $$;
