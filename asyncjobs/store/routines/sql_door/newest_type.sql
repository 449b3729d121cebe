-- The definition of a name that counts; null when no program has declared it.
CREATE FUNCTION asyncjobs.newest_type(_name text) RETURNS asyncjobs.types LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT t FROM asyncjobs.types AS t WHERE t.name = _name ORDER BY t.version DESC, t.id DESC LIMIT 1);
END $$;
