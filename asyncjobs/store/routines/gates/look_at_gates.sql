-- Do with the dependents of these gates what is to be done: release or break them where none is missing, take them back where some are. The
-- gates are locked. What is left is for the folders. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.look_at_gates(_gates bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _open bigint[];
    _closed bigint[];
    _pending bigint[];
    _rest bigint[];
BEGIN
    SELECT coalesce(array_agg(g.id) FILTER (WHERE g.missing = 0), '{}'), coalesce(array_agg(g.id) FILTER (WHERE g.missing > 0), '{}')
    INTO _open, _closed FROM asyncjobs.gates AS g
    WHERE g.id = ANY (_gates) AND (g.releasing OR EXISTS (
        SELECT FROM asyncjobs.dependents AS d
        WHERE d.gate_id = ANY (ARRAY[g.id]) AND d.state = CASE WHEN g.missing = 0 THEN 'waiting' ELSE 'broken' END));
    IF cardinality(_open) > 0 THEN
        _pending := asyncjobs.release_dependents(_open);
    END IF;
    IF cardinality(_closed) > 0 THEN
        PERFORM asyncjobs.take_dependents_back(_closed);
    END IF;
    IF cardinality(_open) + cardinality(_closed) > 0 THEN
        _rest := ARRAY(
            SELECT g.id FROM asyncjobs.gates AS g WHERE g.id = ANY (_open || _closed) AND EXISTS (
                SELECT FROM asyncjobs.dependents AS d
                WHERE d.gate_id = ANY (ARRAY[g.id]) AND d.state = CASE WHEN g.missing = 0 THEN 'waiting' ELSE 'broken' END));
        UPDATE asyncjobs.gates AS g SET releasing = g.id = ANY (_rest)
        WHERE g.id = ANY (_open || _closed) AND g.releasing <> (g.id = ANY (_rest));
        IF cardinality(_rest) > 0 THEN
            PERFORM asyncjobs.tell('k');
        END IF;
    END IF;
    RETURN _pending;
END $$;
