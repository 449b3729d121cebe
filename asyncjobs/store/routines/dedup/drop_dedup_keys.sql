-- Free the dedup keys that were taken for rows that were not written. `_ids` has nulls for the other rows.
CREATE FUNCTION asyncjobs.drop_dedup_keys(_ids bigint[], _rows asyncjobs.new_job[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM asyncjobs.dedup_keys AS d USING ROWS FROM (unnest(_ids), unnest(_rows)) AS r(id)
    WHERE d.type = r.type AND d.dedup_key = r.dedup_key AND d.job_id = r.id
      AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = r.id AND j.type = r.type AND j.dedup_key = r.dedup_key);
END $$;
