-- Free the dedup keys of jobs that ended; a key with a later expiry stays taken until then.
CREATE FUNCTION asyncjobs.end_dedup(_ids bigint[]) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH ended AS MATERIALIZED (
        SELECT j.id, j.type, j.dedup_key FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.dedup_key IS NOT NULL ORDER BY j.type, j.dedup_key),
    kept AS (
        UPDATE asyncjobs.dedup_keys AS d SET live = false FROM ended AS e
        WHERE d.type = ANY (ARRAY[e.type]) AND d.dedup_key = ANY (ARRAY[e.dedup_key]) AND d.job_id = e.id AND d.expires_at > asyncjobs.clock())
    DELETE FROM asyncjobs.dedup_keys AS d USING ended AS e
    WHERE d.type = ANY (ARRAY[e.type]) AND d.dedup_key = ANY (ARRAY[e.dedup_key]) AND d.job_id = e.id
      AND (d.expires_at IS NULL OR d.expires_at <= asyncjobs.clock());
END;
