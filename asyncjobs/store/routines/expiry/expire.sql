-- End jobs that have expired and wait in no line; their rows are locked. `ended`: their ids and types. `queues`: where the next heads of
-- their keys became pending.
CREATE FUNCTION asyncjobs.expire(_ids bigint[], OUT ended jsonb, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _dedup bigint[];
    _keyed bigint[];
    _members bigint[];
    _heads bigint[];
BEGIN
    WITH expired AS (
        UPDATE asyncjobs.jobs AS j
        SET status = 'cancelled', completed_at = _now, error_message = 'expired', updated_at = _now, runner_id = NULL
        WHERE j.id = ANY (_ids) RETURNING j.id, j.type, j.dedup_key, j.serialization_key, j.workflow_id)
    SELECT jsonb_agg(jsonb_build_array(e.id, e.type)), array_agg(e.id) FILTER (WHERE e.dedup_key IS NOT NULL),
        array_agg(e.id) FILTER (WHERE e.serialization_key IS NOT NULL), array_agg(e.id) FILTER (WHERE e.workflow_id IS NOT NULL)
    INTO ended, _dedup, _keyed, _members FROM expired AS e;
    IF _dedup IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_dedup);
    END IF;
    IF _keyed IS NOT NULL THEN
        _heads := asyncjobs.release_keys(_keyed, '{}');
    END IF;
    IF _members IS NOT NULL THEN
        _heads := _heads || asyncjobs.arrive(_members);
    END IF;
    IF _heads IS NOT NULL THEN
        queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
    END IF;
END $$;
