-- Whose a row is that SQL itself enqueues: a random number, as programs draw for theirs.
CREATE FUNCTION asyncjobs.fresh_token() RETURNS bigint LANGUAGE sql VOLATILE
    RETURN ('x' || pg_catalog.left(pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint;
