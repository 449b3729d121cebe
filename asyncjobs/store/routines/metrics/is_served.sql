-- Whether a live runner would take a job like that.
CREATE FUNCTION asyncjobs.is_served(_queue text, _type text, _version integer) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL AND _type = ANY (r.types) AND _queue = ANY (r.queues)
        AND asyncjobs.can_run(r.versions, _type, _version)) $$;
