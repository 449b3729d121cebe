-- Leave what arrives at these gates to the folders, which hear of it with this transaction's commit.
CREATE FUNCTION asyncjobs.leave_arrivals(_gates bigint[], _counts integer[], _deads integer[], _dead_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.arrivals (gate_id, n, dead, dead_id)
    SELECT a.gate, a.n, a.dead, a.dead_id FROM unnest(_gates, _counts, _deads, _dead_ids) AS a(gate, n, dead, dead_id);
    PERFORM asyncjobs.tell('k');
END $$;
