-- Definitions that no living runner declares, and that have to go: newer than one that a living runner does declare (a deployment that
-- was rolled back), or former ones of which eight are newer. `_declared`: by a runner whose row is being written.
CREATE FUNCTION asyncjobs.outdated_types(_declared bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH living AS MATERIALIZED (
            SELECT unnest(r.declares) AS digest FROM asyncjobs.runners AS r UNION SELECT unnest(_declared)),
        known AS MATERIALIZED (
            SELECT t.id, t.digest IN (SELECT l.digest FROM living AS l) AS lives,
                row_number() OVER newest_first AS number,
                bool_or(t.digest IN (SELECT l.digest FROM living AS l)) OVER (newest_first ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS older_lives
            FROM asyncjobs.types AS t WINDOW newest_first AS (PARTITION BY t.name ORDER BY t.version DESC, t.id DESC))
        SELECT k.id FROM known AS k WHERE NOT k.lives AND (k.older_lives OR k.number > 9) ORDER BY k.id);
END $$;
