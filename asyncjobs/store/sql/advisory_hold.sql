-- Whether this session holds the duty's advisory lock, or got it now.
SELECT EXISTS (
        SELECT FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid() AND l.objsubid = 2 AND l.granted
          AND l.classid::bigint = pg_catalog.hashtext('asyncjobs.duties')::bigint & 4294967295
          AND l.objid::bigint = pg_catalog.hashtext($1::text)::bigint & 4294967295)
    OR pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('asyncjobs.duties'), pg_catalog.hashtext($1::text)) AS held
