-- Behind which place the first job of a scan stands that may start, for a claim that met some that have expired; null where there is
-- none. It looks over `_most` jobs: where none of these may start (or is for this runner), it is the last of them.
CREATE FUNCTION asyncjobs.past_expired(
    _queue text, _lane text, _types text[], _versions jsonb, _most integer, INOUT _priority integer, INOUT _place bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _seen integer := 0;
BEGIN
    FOR _row IN
        (SELECT j.priority, j.place, asyncjobs.may_start(j.start_before) AND j.type = ANY (_types)
            AND asyncjobs.can_run(_versions, j.type, j.version) AS starts
        FROM asyncjobs.jobs AS j
        WHERE _lane IS NULL AND hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion = 0
          AND (j.priority, j.place) > (_priority, _place)
        ORDER BY j.priority, j.place LIMIT _most)
        UNION ALL
        (SELECT j.priority, j.place, asyncjobs.may_start(j.start_before) AND j.type = ANY (_types)
            AND asyncjobs.can_run(_versions, j.type, j.version)
        FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NULL AND j.queue = _queue AND coalesce(j.lane, '') = _lane AND j.lane IS NOT NULL
          AND j.status = 'pending' AND j.suspicion = 0 AND (j.priority, j.place) > (_priority, _place)
        ORDER BY j.limit_key, j.priority, j.place LIMIT _most)
    LOOP
        IF _row.starts THEN
            RETURN;
        END IF;
        _seen := _seen + 1;
        _priority := _row.priority;
        _place := _row.place;
    END LOOP;
    IF _seen < _most THEN
        _priority := NULL;
        _place := NULL;
    END IF;
END $$;
