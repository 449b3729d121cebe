-- Lock those of these gates that nobody has locked; returns them.
CREATE FUNCTION asyncjobs.try_lock_gates(_gates bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH tried AS MATERIALIZED (
            SELECT g.id, pg_try_advisory_xact_lock(hashtext('asyncjobs.gate'), (g.id & 2147483647)::integer) AS is_ours
            FROM unnest(_gates) AS g(id))
        SELECT t.id FROM tried AS t WHERE t.is_ours);
END $$;
