-- Let what arrives at these gates, and what has been left there, count; then see to those that have opened, or have some missing again, or
-- have not done with their dependents. The gates are locked. The end of a workflow is written here. Returns what `release_dependents` does.
CREATE FUNCTION asyncjobs.count_arrivals(_ours bigint[], _came asyncjobs.arrival[], _leaves boolean) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _moved bigint[];  -- the gates of workflows
    _open bigint[];
    _closed bigint[];
    _lost bigint[];
    _was_releasing boolean;
    _pending bigint[];
    _are_all boolean := true;
BEGIN
    WITH left_over AS (
        DELETE FROM asyncjobs.arrivals AS a WHERE a.gate_id = ANY (_ours) RETURNING a.gate_id, a.n, a.dead, a.dead_id),
    counted AS (
        SELECT c.gate_id, sum(c.n)::integer AS n, sum(c.dead)::integer AS dead, min(c.dead_id) AS dead_id, min(c.dead) < 0 AS is_undone,
            coalesce(-sum(c.n) FILTER (WHERE c.n < 0 AND c.dead = 0), 0) AS spawned FROM (
            SELECT l.gate_id, l.n, l.dead, l.dead_id FROM left_over AS l
            UNION ALL
            SELECT a.gate_id, a.n, a.dead, a.dead_id FROM unnest(_came) AS a WHERE a.gate_id = ANY (_ours)) AS c
        GROUP BY c.gate_id),
    written AS (
        UPDATE asyncjobs.gates AS g
        SET size = g.size + c.spawned, missing = g.missing - c.n, dead = g.dead + c.dead,
            opened_at = CASE WHEN g.missing = c.n THEN coalesce(g.opened_at, _now) END,
            dead_id = CASE WHEN g.dead + c.dead > 0 AND NOT c.is_undone THEN coalesce(g.dead_id, c.dead_id) END
        FROM counted AS c WHERE g.id = ANY (ARRAY[c.gate_id])
        RETURNING g.id, g.id = g.workflow_id AS is_workflow, g.missing, g.dead, g.releasing, g.dead > 0 AND g.dead_id IS NULL AS is_lost, c.n, c.is_undone)
    SELECT array_agg(w.id) FILTER (WHERE w.is_workflow AND (w.missing = 0 OR w.n < 0)),
        array_agg(w.id) FILTER (WHERE w.missing = 0 AND NOT w.is_workflow), array_agg(w.id) FILTER (WHERE (w.missing > 0 AND (w.n < 0 OR w.is_undone))
            OR (w.missing = 0 AND w.dead = 0 AND (w.releasing OR w.is_undone))),  -- (who is retried may end before its return is counted)
        array_agg(w.id) FILTER (WHERE w.is_lost), bool_or(w.releasing)
    INTO _moved, _open, _closed, _lost, _was_releasing FROM written AS w;
    IF _lost IS NOT NULL THEN  -- who was dead has been retried, and others are
        UPDATE asyncjobs.gates AS g SET dead_id = (
            SELECT coalesce(m.broken_by, m.job_id) FROM asyncjobs.members AS m
            WHERE m.workflow_id = g.workflow_id AND m.arrived = 1 AND (g.id = g.workflow_id OR g.id = ANY (m.gates)) LIMIT 1)
        WHERE g.id = ANY (_lost);
    END IF;
    IF _moved IS NOT NULL THEN
        UPDATE asyncjobs.workflows AS w SET ended_at = g.opened_at FROM asyncjobs.gates AS g
        WHERE w.id = ANY (_moved) AND g.id = ANY (ARRAY[w.id]) AND w.ended_at IS DISTINCT FROM g.opened_at;
    END IF;
    IF _closed IS NOT NULL THEN
        PERFORM asyncjobs.take_dependents_back(_closed);
    END IF;
    IF _open IS NOT NULL THEN
        SELECT r.freed, r.are_all INTO _pending, _are_all FROM asyncjobs.release_dependents(_open, _leaves) AS r;
    END IF;
    IF _closed IS NOT NULL OR _was_releasing OR NOT _are_all THEN
        PERFORM asyncjobs.note_releasing(_open || _closed);
    END IF;
    RETURN _pending;
END $$;
