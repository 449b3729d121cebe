-- Whether all that waits in a queue has limits, and no more is to be known of it: it has no total, and (`_suspects`) no suspects of limits.
CREATE FUNCTION asyncjobs.are_all_limited(_queue text, _suspects boolean) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL)
        AND NOT EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _queue)
        AND NOT (_suspects AND EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.queue = _queue AND t.has_suspects));
END $$;
