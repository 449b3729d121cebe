-- NOTIFY's channel for this schema. A fixed length, whatever the schema is called (a name may have 63 bytes, a channel, too).
CREATE FUNCTION asyncjobs.channel() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'asyncjobs_' || pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
    (pg_catalog.parse_ident('asyncjobs.channel'))[1], 'UTF8')), 'hex'), 32);
