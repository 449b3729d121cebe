-- Let the keys of jobs that ended go on, in the transaction that ended them; returns the heads that became pending. A dead job of
-- a type that halts keeps its row, and with it the key: it is looked for among `_dead` (null: among all). The next head is looked for
-- without a lock first: this transaction deleted the dispatched row, so no other can dispatch. Only a key that seems empty is locked and
-- looked at again, in a new statement: an enqueue that saw the old head may have just committed. A lock that a stranger's transaction holds is not waited for (the acks of
-- a whole runner would): a serializer looks at that key after this commit.
CREATE FUNCTION asyncjobs.let_keys_go(_ids bigint[], _dead bigint[] DEFAULT NULL) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _halting bigint[] := '{}';
    _keys text[];
    _released text[];
    _places bigint[];  -- of those that were heads
    _found text[];
    _heads bigint[];
BEGIN
    _dead := coalesce(_dead, _ids);
    IF cardinality(_dead) > 0 THEN
        _halting := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_dead) AND j.status = 'dead' AND j.on_dead = 'halt');
        UPDATE asyncjobs.serialized_jobs AS s SET halted_at = asyncjobs.clock(), halt_reason = j.error_message
        FROM asyncjobs.jobs AS j WHERE s.id = ANY (_halting) AND s.halted_at IS NULL AND j.id = ANY (ARRAY[s.id]);
    END IF;
    WITH released AS (
        DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.halted_at IS NULL AND s.id <> ALL (_halting)
        RETURNING s.serialization_key, CASE WHEN s.dispatched_at IS NOT NULL THEN s.place END AS place)
    SELECT array_agg(DISTINCT r.serialization_key), array_agg(r.serialization_key), array_agg(r.place)
    INTO _keys, _released, _places FROM released AS r;
    IF _keys IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(d.id), array_agg(d.serialization_key) INTO _heads, _found
    FROM asyncjobs.dispatch_keys(_released, _places) AS d;
    IF coalesce(cardinality(_found), 0) < cardinality(_keys) THEN
        _heads := _heads || asyncjobs.look_again(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE _found IS NULL OR k.key <> ALL (_found)));
    END IF;
    RETURN _heads;
END $$;
