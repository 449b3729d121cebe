-- The keys of an object in order, with commas between them; `none` when it has none.
CREATE FUNCTION asyncjobs.names_in(_object jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN coalesce((SELECT pg_catalog.string_agg(k.name, ', ' ORDER BY k.name COLLATE "C") FROM pg_catalog.jsonb_object_keys(_object) AS k(name)), 'none');
