-- Two histograms as one: the counts of their buckets added up.
CREATE FUNCTION asyncjobs.add_histograms(bigint[], bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(b.packed ORDER BY b.packed), '{}')
    FROM (SELECT ((e.packed >> 40) << 40) + sum(e.packed & 1099511627775)::bigint AS packed
          FROM unnest($1 || $2) AS e(packed) GROUP BY e.packed >> 40) AS b
$$;
