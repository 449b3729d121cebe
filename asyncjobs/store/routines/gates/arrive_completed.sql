-- `arrive` for members that have all completed, in the transaction of a call that may claim what they let go: returns the dependents that nothing
-- holds any more. They are blocked still, and locked: `claim_released` and `let_dependents_go` are for them.
CREATE FUNCTION asyncjobs.arrive_completed(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _came asyncjobs.arrival[];
BEGIN
    WITH ended AS (
        UPDATE asyncjobs.members AS m SET arrived = 0 WHERE m.job_id = ANY (_ids) AND m.arrived IS NULL
        RETURNING m.workflow_id || m.gates AS gates),
    counted AS (
        SELECT g.id, count(1)::integer AS n FROM ended AS e CROSS JOIN LATERAL unnest(e.gates) AS g(id) GROUP BY g.id)
    SELECT array_agg(ROW(c.id, c.n, 0, NULL)::asyncjobs.arrival) INTO _came FROM counted AS c;
    RETURN CASE WHEN _came IS NOT NULL THEN asyncjobs.fold_gates(_came, true) END;
END $$;
