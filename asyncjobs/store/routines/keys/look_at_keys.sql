-- Look at most at `_limit` keys behind `_after`, in the order of their names: which have waiting jobs and none dispatched, and which
-- hold on to a job that is gone or ended without letting the key go (its runner died in between). And at most at `_limit` jobs behind
-- `_after_waiting` that wait in `jobs`: which are in no line (an operator's SQL took them out). `last` and `last_waiting` are where to go
-- on; null at the end.
CREATE FUNCTION asyncjobs.look_at_keys(
    _after text, _after_waiting jsonb, _limit integer,
    OUT stalled text[], OUT ended bigint[], OUT last text, OUT lost bigint[], OUT last_waiting jsonb)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _keys text[];
BEGIN
    _after_waiting := coalesce(_after_waiting, '["", 0, 0]');
    WITH RECURSIVE keys(key, number) AS (
        (SELECT s.serialization_key, 1 FROM asyncjobs.serialized_jobs AS s
         WHERE s.serialization_key > _after ORDER BY s.serialization_key LIMIT least(_limit, 1))
        UNION ALL
        SELECT n.key, k.number + 1 FROM keys AS k CROSS JOIN LATERAL (
            SELECT s.serialization_key AS key FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key > k.key ORDER BY s.serialization_key LIMIT 1) AS n
        WHERE k.number < _limit)
    SELECT array_agg(k.key ORDER BY k.number) INTO _keys FROM keys AS k;
    stalled := ARRAY(
        SELECT k.key FROM unnest(_keys) AS k(key)
        WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = k.key AND d.dispatched_at IS NOT NULL)
          AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = k.key));
    ended := ARRAY(
        SELECT d.id FROM unnest(_keys) AS k(key)
        JOIN asyncjobs.serialized_jobs AS d ON d.serialization_key = k.key AND d.dispatched_at IS NOT NULL AND d.halted_at IS NULL
        LEFT JOIN asyncjobs.jobs AS j ON j.id = d.id
        WHERE j.id IS NULL OR (j.status IN ('completed', 'dead', 'cancelled') AND NOT EXISTS (
            SELECT FROM asyncjobs.runners AS r WHERE r.id = j.runner_id)));
    last := CASE WHEN cardinality(_keys) >= _limit THEN _keys[_limit] END;
    SELECT array_agg(w.id) FILTER (WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[w.id]))),
        CASE WHEN count(*) >= _limit THEN (array_agg(jsonb_build_array(w.type, w.version, w.place)))[_limit] END
    INTO lost, last_waiting
    FROM (SELECT j.id, j.type, j.version, j.place FROM asyncjobs.jobs AS j
          WHERE j.status = 'waiting' AND (j.type, j.version, j.place)
              > (_after_waiting ->> 0, (_after_waiting ->> 1)::integer, (_after_waiting ->> 2)::bigint)
          ORDER BY j.type, j.version, j.place LIMIT _limit) AS w;
END $$;
