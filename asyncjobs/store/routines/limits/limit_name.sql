-- The limit of a key: what stands before the first colon. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.limit_name(_key text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.split_part(_key, ':', 1);
