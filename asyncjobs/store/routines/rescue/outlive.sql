-- What runners say of jobs that were lost before, and run again: the marks that they have outlived, and whether they are on probation no
-- more. A handler may hold its row for long (`ctx.complete`): that one is suspected once more should it be lost.
CREATE FUNCTION asyncjobs.outlive(_ids bigint[], _tokens bigint[], _outlived integer[], _cleared boolean[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.jobs AS j SET outlived = o.outlived, suspicion = CASE WHEN o.cleared THEN 0 ELSE j.suspicion END
    FROM (SELECT l.id FROM asyncjobs.jobs AS l WHERE l.id = ANY (_ids) ORDER BY l.id + 0 FOR UPDATE SKIP LOCKED) AS free
    JOIN unnest(_ids, _tokens, _outlived, _cleared) AS o(id, token, outlived, cleared) ON o.id = free.id
    WHERE j.id = ANY (ARRAY[free.id]) AND j.claim_token = o.token AND j.status = 'processing';
END $$;
