-- Why this cannot be a key; null when it can. (NUL and lone surrogates are no text and no jsonb of the server's.)
CREATE FUNCTION asyncjobs.key_problem(_key text, _at_most integer DEFAULT 255) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN _key = '' THEN 'is empty'
            WHEN pg_catalog.length(_key) > _at_most THEN 'has ' || pg_catalog.btrim(pg_catalog.to_char(pg_catalog.length(_key), '9,999,999,999')) || ' characters, at most ' || _at_most END;
