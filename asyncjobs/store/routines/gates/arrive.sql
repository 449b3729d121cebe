-- These jobs have ended, in this transaction; those that are members arrive. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.arrive(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _gates bigint[];
    _counts integer[];
    _deads integer[];
    _dead_ids bigint[];
BEGIN
    SELECT m.gates, m.counts, m.deads, m.dead_ids INTO _gates, _counts, _deads, _dead_ids FROM asyncjobs.mark_arrived(_ids) AS m;
    RETURN CASE WHEN _gates IS NOT NULL THEN asyncjobs.fold_gates(_gates, _counts, _deads, _dead_ids) END;
END $$;
