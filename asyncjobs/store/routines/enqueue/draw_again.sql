-- New ids for rows that were not written, since those that were drawn for them belong to other jobs: the sequence was behind. `new` has
-- nulls for the rows that are there. A dedup key that was taken goes to the new id, and so do the rows that met it in the same call.
CREATE FUNCTION asyncjobs.draw_again(
    INOUT ids bigint[], INOUT new bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _existing integer[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
    _row asyncjobs.new_job;
BEGIN
    PERFORM asyncjobs.move_sequences();
    FOR _at IN 1 .. cardinality(new) LOOP
        CONTINUE WHEN new[_at] IS NULL;
        IF EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = new[_at] AND j.enqueue_token = _tokens[_at]) THEN
            new[_at] := NULL;
            CONTINUE;
        END IF;
        _id := nextval('asyncjobs.jobs_id_seq');
        _row := _rows[_at];
        IF _row.dedup_key IS NOT NULL THEN
            UPDATE asyncjobs.dedup_keys AS d SET job_id = _id
            WHERE d.type = _row.type AND d.dedup_key = _row.dedup_key AND d.job_id = new[_at];
            ids := ARRAY(SELECT CASE WHEN r.type = _row.type AND r.dedup_key = _row.dedup_key AND r.generate_series = ANY (_existing)
                                     THEN _id ELSE r.id END
                FROM ROWS FROM (unnest(ids), unnest(_rows), generate_series(1, cardinality(ids))) AS r(id) ORDER BY r.generate_series);
        END IF;
        new[_at] := _id;
        ids[_at] := _id;
    END LOOP;
END $$;
