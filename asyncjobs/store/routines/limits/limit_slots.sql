-- Slots of these keys, and of their limits, in ascending order: as `key_slots`.
CREATE FUNCTION asyncjobs.limit_slots(_keys text[]) RETURNS integer[] LANGUAGE sql IMMUTABLE
RETURN ARRAY(SELECT pg_catalog.hashtext(k.key) & 4095 AS slot FROM pg_catalog.unnest(_keys) AS k(key)
    UNION SELECT pg_catalog.hashtext(asyncjobs.limit_name(k.key)) & 4095 FROM pg_catalog.unnest(_keys) AS k(key) ORDER BY slot);
