-- Note which of these keys have jobs that wait and are suspected (routines/rescue): claims look for those apart.
CREATE FUNCTION asyncjobs.note_suspects(_keys text[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.limit_turns AS t SET has_suspects = true
    FROM (SELECT c.key, c.queue, c.lane FROM asyncjobs.limit_turns AS c
          WHERE c.key = ANY (_keys) AND NOT c.has_suspects AND EXISTS (
              SELECT FROM asyncjobs.jobs AS j
              WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = c.key AND j.queue = c.queue AND coalesce(j.lane, '') = c.lane
                AND j.status = 'pending' AND j.suspicion > 0)
          ORDER BY c.key, c.queue, c.lane FOR UPDATE SKIP LOCKED) AS c
    WHERE t.key = c.key AND t.queue = c.queue AND t.lane = c.lane;
END $$;
