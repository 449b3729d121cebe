-- What runners serve, or served within `_grace`: types, and of each the newest version that one of them can run.
CREATE FUNCTION asyncjobs.served(_grace interval, OUT types text[], OUT versions jsonb) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
BEGIN
    types := ARRAY(
        SELECT t.type FROM asyncjobs.runners AS r CROSS JOIN unnest(r.types) AS t(type)
        WHERE coalesce(r.stopped_at > _now - _grace, true)
        UNION SELECT t.type FROM asyncjobs.former_runners AS f CROSS JOIN unnest(f.types) AS t(type) WHERE f.ended_at > _now - _grace);
    versions := (
        SELECT coalesce(jsonb_object_agg(k.type, k.newest), '{}') FROM (
            SELECT v.key AS type, max(v.value::integer) AS newest
            FROM (SELECT r.versions FROM asyncjobs.runners AS r WHERE coalesce(r.stopped_at > _now - _grace, true)
                  UNION ALL SELECT f.versions FROM asyncjobs.former_runners AS f WHERE f.ended_at > _now - _grace) AS r
            CROSS JOIN jsonb_each_text(r.versions) AS v GROUP BY v.key) AS k);
END $$;
