-- New ids for rows that were not written, since those that were drawn for them belong to other jobs: the sequence was behind. `new` has
-- nulls for the rows that are there. A dedup key that was taken goes to the new id, and so do the rows that met it in the same call.
CREATE FUNCTION asyncjobs.draw_again(
    INOUT ids bigint[], INOUT new bigint[], _tokens bigint[], _types text[], _dedup_keys text[], _existing integer[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    PERFORM asyncjobs.move_sequences();
    FOR _at IN 1 .. cardinality(new) LOOP
        CONTINUE WHEN new[_at] IS NULL;
        IF EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = new[_at] AND j.enqueue_token = _tokens[_at]) THEN
            new[_at] := NULL;
            CONTINUE;
        END IF;
        _id := nextval('asyncjobs.jobs_id_seq');
        IF _dedup_keys[_at] IS NOT NULL THEN
            UPDATE asyncjobs.dedup_keys AS d SET job_id = _id
            WHERE d.type = _types[_at] AND d.dedup_key = _dedup_keys[_at] AND d.job_id = new[_at];
            ids := ARRAY(SELECT CASE WHEN r.type = _types[_at] AND r.dedup_key = _dedup_keys[_at] AND r.at = ANY (_existing)
                                     THEN _id ELSE r.id END
                FROM unnest(ids, _types, _dedup_keys) WITH ORDINALITY AS r(id, type, dedup_key, at) ORDER BY r.at);
        END IF;
        new[_at] := _id;
        ids[_at] := _id;
    END LOOP;
END $$;
