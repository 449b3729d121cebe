-- Clear the suspects that were lost together with jobs that were found to be to blame, but not these. Rows that others hold are left suspect.
CREATE FUNCTION asyncjobs.clear_suspects(_blamed bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _lost_with bigint[] := ARRAY(SELECT j.lost_with FROM asyncjobs.jobs AS j WHERE j.id = ANY (_blamed) AND j.lost_with IS NOT NULL);
    _ids bigint[];
BEGIN
    IF cardinality(_lost_with) = 0 THEN
        RETURN NULL;
    END IF;
    _ids := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE hashtext(j.queue) = ANY (ARRAY(SELECT DISTINCT hashtext(q.queue) FROM asyncjobs.runners AS r CROSS JOIN unnest(r.queues) AS q(queue)))
          AND j.status = 'pending' AND j.limit_key IS NULL AND j.suspicion > 0 AND j.lost_with = ANY (_lost_with) AND j.id <> ALL (_blamed)
        ORDER BY j.id + 0 FOR UPDATE SKIP LOCKED)
        || ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.status = 'pending' AND j.limit_key IS NOT NULL AND j.suspicion > 0 AND j.lost_with = ANY (_lost_with) AND j.id <> ALL (_blamed)
        ORDER BY j.id + 0 FOR UPDATE SKIP LOCKED);
    UPDATE asyncjobs.jobs AS j SET suspicion = 0, losses = 1 WHERE j.id = ANY (_ids);
    RETURN _ids;
END $$;
