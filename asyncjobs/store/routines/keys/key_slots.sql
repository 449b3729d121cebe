-- Slots of these keys. Keys share 4,096 of them: a lock per key would run out of shared memory at some 50,000 keys in one transaction.
CREATE FUNCTION asyncjobs.key_slots(_keys text[]) RETURNS integer[] LANGUAGE sql IMMUTABLE
RETURN ARRAY(SELECT DISTINCT pg_catalog.hashtext(k.key) & 4095 AS slot FROM pg_catalog.unnest(_keys) AS k(key) ORDER BY slot);
