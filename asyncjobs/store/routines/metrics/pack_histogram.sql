-- A histogram of an object from bucket to count.
CREATE FUNCTION asyncjobs.pack_histogram(jsonb) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg((e.key::bigint << 40) + e.value::bigint ORDER BY e.key::bigint), '{}') FROM jsonb_each_text($1) AS e
$$;
