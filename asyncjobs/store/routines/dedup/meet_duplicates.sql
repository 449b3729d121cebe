-- The dedup keys of an enqueue: taken for its rows, or whose rows those that have them are to be returned, replaced or refused for. Until
-- no job ends between the look at its dedup key and the lock of its row.
CREATE FUNCTION asyncjobs.meet_duplicates(
    _ids bigint[], _new bigint[], _rows asyncjobs.new_job[], _own boolean, _keys text[], _now timestamptz,
    OUT ids bigint[], OUT new bigint[], OUT rows asyncjobs.new_job[], OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _replacing integer[];  -- ordinals
BEGIN
    LOOP
        BEGIN
            SELECT t.ids, t.new, t.rows, t.existing, t.did, t.refused, t.statuses, t.replacing
            INTO ids, new, rows, existing, did, refused, statuses, _replacing FROM asyncjobs.take_dedup_keys(_ids, _new, _rows, _now) AS t;
            IF _own THEN  -- nothing that is yet to be committed is to be seen by what is kept
                _replacing := nullif(ARRAY(SELECT r.at FROM unnest(_replacing) AS r(at) WHERE (rows[r.at]).on_duplicate = 'replace'), '{}');
            END IF;
            IF refused IS NOT NULL THEN
                PERFORM asyncjobs.drop_dedup_keys(new, rows);
            ELSIF _replacing IS NOT NULL THEN
                PERFORM asyncjobs.replace_jobs(ids, rows, _replacing, _own, _keys, _now);
            END IF;
            RETURN;
        EXCEPTION WHEN SQLSTATE 'AJ001' THEN
            NULL;
        END;
    END LOOP;
END $$;
