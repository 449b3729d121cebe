-- Let what arrives at gates count (once for each gate), and what follows from it happen; returns what `release_dependents` does. What arrives
-- at a gate that somebody has locked is left to the folders.
CREATE FUNCTION asyncjobs.fold_gates(_came asyncjobs.arrival[], _leaves boolean DEFAULT false) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ours bigint[] := asyncjobs.try_lock_gates(ARRAY(SELECT a.gate_id FROM unnest(_came) AS a));
BEGIN
    IF cardinality(_ours) < cardinality(_came) THEN
        PERFORM asyncjobs.leave_arrivals(ARRAY(SELECT a FROM unnest(_came) AS a WHERE a.gate_id <> ALL (_ours)));
    END IF;
    RETURN asyncjobs.count_arrivals(_ours, _came, _leaves);
END $$;
