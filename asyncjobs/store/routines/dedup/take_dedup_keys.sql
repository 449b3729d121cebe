-- Take the dedup keys of an enqueue's rows, in the order of the keys, and say what became of each row: see `enqueue`. `replacing`: the
-- ordinals of those that replace a job. A row that replaces another of the same call is written in its stead.
CREATE FUNCTION asyncjobs.take_dedup_keys(
    INOUT ids bigint[], INOUT new bigint[], INOUT rows asyncjobs.new_job[], _now timestamptz,
    OUT existing integer[], OUT refused integer[], OUT statuses text[], OUT replacing integer[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _other bigint;
    _other_key text;
    _other_status text;
    _taker bigint := -1;  -- the row of this call that took the last key, and its ordinal
    _taker_at integer;
BEGIN
    FOR _row IN
        SELECT r.generate_series AS at, r.id, r.type, r.dedup_key, r.on_duplicate, r.serialization_key AS key,
               _now + make_interval(secs => r.dedup_for_seconds) AS expires_at
        FROM ROWS FROM (unnest(new), unnest(rows), generate_series(1, cardinality(new))) AS r(id)
        WHERE r.id IS NOT NULL AND r.dedup_key IS NOT NULL ORDER BY r.type, r.dedup_key, r.generate_series
    LOOP
        _other := asyncjobs.take_dedup_key(_row.type, _row.dedup_key, _row.id, _row.expires_at, _taker);
        IF _other = _row.id THEN
            _taker := _row.id;
            _taker_at := _row.at;
            CONTINUE;
        END IF;
        ids[_row.at] := _other;
        new[_row.at] := NULL;
        existing := existing || _row.at;
        CONTINUE WHEN coalesce(_row.on_duplicate, 'return') = 'return';
        _other_status := NULL;
        _other_key := rows[_taker_at].serialization_key;
        IF _other <> _taker THEN
            SELECT j.status, j.serialization_key INTO _other_status, _other_key FROM asyncjobs.jobs AS j WHERE j.id = _other;
            _other_status := coalesce(_other_status, 'gone');
        END IF;
        IF _row.on_duplicate = 'raise'
           OR (_other_key IS DISTINCT FROM _row.key
               AND (_other = _taker OR _other_status IN ('waiting', 'scheduled', 'pending', 'paused'))) THEN
            refused := refused || _row.at;
            statuses := array_append(statuses, _other_status);
        ELSIF _other = _taker THEN
            rows[_taker_at].payload := rows[_row.at].payload;
            rows[_taker_at].version := rows[_row.at].version;
            rows[_taker_at].run_at := rows[_row.at].run_at;
            rows[_taker_at].delay_seconds := rows[_row.at].delay_seconds;
        ELSIF _other_status IN ('waiting', 'scheduled', 'pending', 'paused') THEN
            replacing := replacing || _row.at;
        END IF;
    END LOOP;
END $$;
