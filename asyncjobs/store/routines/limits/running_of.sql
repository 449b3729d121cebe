-- How many jobs of a limit run, whatever their keys: not more than `_most` are counted.
CREATE FUNCTION asyncjobs.running_of(_name text, _most integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT count(1) FROM (
        SELECT FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key = _name COLLATE "C" AND j.runner_id IS NOT NULL
        UNION ALL
        SELECT FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key > (_name || ':') COLLATE "C" AND j.limit_key < (_name || ';') COLLATE "C"
          AND j.runner_id IS NOT NULL
        LIMIT _most) AS r);
END $$;
