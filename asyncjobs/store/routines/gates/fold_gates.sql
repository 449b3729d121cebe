-- Let what arrives at these gates count (no two of them are the same), and what follows from it happen; returns the jobs that became pending. What
-- arrives at a gate that somebody has locked is left to the folders.
CREATE FUNCTION asyncjobs.fold_gates(_gates bigint[], _counts integer[], _deads integer[], _dead_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ours bigint[] := asyncjobs.try_lock_gates(_gates);
    _look bigint[];
BEGIN
    IF cardinality(_ours) < cardinality(_gates) THEN
        PERFORM asyncjobs.leave_arrivals(array_agg(a.gate), array_agg(a.n), array_agg(a.dead), array_agg(a.dead_id))
        FROM unnest(_gates, _counts, _deads, _dead_ids) AS a(gate, n, dead, dead_id) WHERE a.gate <> ALL (_ours);
    END IF;
    _look := asyncjobs.count_arrivals(_ours, _gates, _counts, _deads, _dead_ids);
    RETURN CASE WHEN _look IS NOT NULL THEN asyncjobs.look_at_gates(_look) END;
END $$;
