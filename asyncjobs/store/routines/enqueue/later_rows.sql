-- The ordinals of the rows whose time has not come; null when there are none.
CREATE FUNCTION asyncjobs.later_rows(_rows asyncjobs.new_job[], _now timestamptz) RETURNS integer[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT array_agg(r.generate_series ORDER BY r.generate_series)
        FROM ROWS FROM (unnest(_rows), generate_series(1, cardinality(_rows))) AS r
        WHERE coalesce(r.run_at, _now + make_interval(secs => r.delay_seconds)) > _now);
END $$;
