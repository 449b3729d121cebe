-- What errors have in common that differ only by numbers: the first line, with '#' for each number, id and address in it.
CREATE FUNCTION asyncjobs.error_kind(_message text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.left(pg_catalog.regexp_replace(pg_catalog.split_part(coalesce(_message, ''), pg_catalog.chr(10), 1),
        '0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{8,}|[0-9]+', '#', 'gi'), 200);
