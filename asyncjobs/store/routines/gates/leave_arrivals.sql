-- Leave what arrives at gates to the folders, which hear of it with this transaction's commit.
CREATE FUNCTION asyncjobs.leave_arrivals(_came asyncjobs.arrival[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(_came) > 0 THEN
        INSERT INTO asyncjobs.arrivals (gate_id, n, dead, dead_id) SELECT a.gate_id, a.n, a.dead, a.dead_id FROM unnest(_came) AS a;
        PERFORM asyncjobs.tell('k');
    END IF;
END $$;
