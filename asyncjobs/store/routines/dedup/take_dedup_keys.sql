-- Take the dedup keys of an enqueue's rows, in the order of the keys, and say what became of each row: see `enqueue`. `replacing`: the
-- ordinals of those that replace a job, or keep one that is to start later than this. Error AJ001: begin anew. A row that replaces another of the same call is written in its stead.
CREATE FUNCTION asyncjobs.take_dedup_keys(
    INOUT ids bigint[], INOUT new bigint[], INOUT rows asyncjobs.new_job[], _now timestamptz,
    OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[], OUT replacing integer[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row record;
    _other bigint;
    _other_key text;
    _other_status text;
    _is_new boolean;
    _taker bigint := -1;  -- the row of this call that took the last key, and its ordinal
    _taker_at integer;
BEGIN
    FOR _row IN
        SELECT r.generate_series AS at, r.id, r.type, r.dedup_key, r.on_duplicate, r.dedup_until, r.serialization_key AS key,
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
        _other_status := NULL;
        _other_key := rows[_taker_at].serialization_key;
        _is_new := true;
        IF _other <> _taker THEN
            SELECT o.status, o.serialization_key, o.is_new INTO _other_status, _other_key, _is_new
            FROM asyncjobs.look_at_owner(_row.type, _row.dedup_key, _other, _row.dedup_until, _now) AS o;
        END IF;
        existing := existing || _row.at;
        did := did || CASE
            WHEN _row.on_duplicate = 'replace' AND _is_new AND (_other = _taker OR _other_status IN ('waiting', 'scheduled', 'pending', 'paused')) THEN 'replaced'
            WHEN _row.on_duplicate = 'replace' OR _other_status IN ('processing', 'completed', 'dead', 'cancelled', 'gone') THEN 'dropped'
            ELSE 'kept' END;
        IF _row.dedup_until = 'start' AND did[cardinality(did)] = 'kept' AND _other <> _taker THEN
            replacing := replacing || _row.at;  -- it must not start before what it is to see is committed
        END IF;
        CONTINUE WHEN coalesce(_row.on_duplicate, 'return') = 'return';
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
            rows[_taker_at].at_most_seconds := rows[_row.at].at_most_seconds;
        ELSIF _other_status IN ('waiting', 'scheduled', 'pending', 'paused') THEN
            replacing := replacing || _row.at;
        END IF;
    END LOOP;
END $$;
