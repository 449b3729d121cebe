-- What the serializers and operators do with keys: dispatch, sweep, and the verbs. One transaction each, READ COMMITTED.
--
-- The order of locks, and what is looked at after them: 0002. Whoever releases a key locks the row of the job first and looks again
-- whether it is final.

-- Dispatch the heads of these keys if they have none dispatched, and drop the requests for it. Keys that somebody has locked at the
-- moment are not waited for: they come back in `blocked`.
CREATE FUNCTION asyncjobs.advance_keys(_keys text[], _requests bigint[], OUT heads bigint[], OUT queues text[], OUT blocked text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked text[] := asyncjobs.try_lock_keys(_keys);
BEGIN
    SELECT array_agg(d.id) INTO heads FROM asyncjobs.dispatch_keys(_locked) AS d;
    DELETE FROM asyncjobs.dispatch_requests AS r WHERE r.id = ANY (_requests) AND r.serialization_key = ANY (_locked);
    blocked := ARRAY(SELECT DISTINCT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (_locked));
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (heads) AND j.status = 'pending');
END $$;

-- Look at most at `_limit` keys behind `_after`, in the order of their names: which have waiting jobs and none dispatched, and which
-- hold on to a job that is gone or ended without letting the key go (its runner died in between). And at most at `_limit` jobs behind
-- `_after_waiting` that wait in `jobs`: which are in no line (somebody's hand took them out). `last` and `last_waiting` are where to go
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
        WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = k.key AND d.job_id IS NOT NULL)
          AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = k.key));
    ended := ARRAY(
        SELECT d.id FROM unnest(_keys) AS k(key)
        JOIN asyncjobs.serialized_jobs AS d ON d.serialization_key = k.key AND d.job_id IS NOT NULL AND d.halted_at IS NULL
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

-- Let jobs that wait in no line join theirs again: as if they had been delayed until now. Returns how many still needed it.
CREATE FUNCTION asyncjobs.rejoin(_ids bigint[]) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _locked bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status = 'waiting' ORDER BY j.id FOR UPDATE SKIP LOCKED);
    _count integer;
BEGIN
    UPDATE asyncjobs.jobs AS j SET status = 'scheduled', run_at = asyncjobs.clock(), updated_at = asyncjobs.clock()
    WHERE j.id = ANY (_locked) AND j.status = 'waiting'
      AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]));
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;

-- Let go the key of a job that is gone or final, after looking again under the lock of its row.
CREATE FUNCTION asyncjobs.release_ended(_id bigint) RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _status text;
    _runner bigint;
    _heads bigint[];
BEGIN
    SELECT j.status, j.runner_id INTO _status, _runner FROM asyncjobs.jobs AS j WHERE j.id = _id FOR UPDATE;
    IF FOUND AND (_status NOT IN ('completed', 'dead', 'cancelled') OR EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = _runner)) THEN
        RETURN NULL;
    END IF;
    UPDATE asyncjobs.jobs AS j SET runner_id = NULL WHERE j.id = _id AND j.runner_id IS NOT NULL;
    PERFORM asyncjobs.end_dedup(ARRAY[_id]);
    _heads := asyncjobs.release_keys(ARRAY[_id]);
    RETURN ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;

-- A trace covers jobs that wait, and so do the children of a job. (Without a parent a row costs no more, with one 0.8 us and 70 bytes of log.)
CREATE INDEX serialized_jobs_parent ON asyncjobs.serialized_jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;
CREATE INDEX serialized_jobs_correlation ON asyncjobs.serialized_jobs (correlation_id) WHERE correlation_id IS NOT NULL;
