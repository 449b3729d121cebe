-- Open the keys of those of these jobs that have a limit, at once: in a transaction of asyncjobs' own, with what it does last before it
-- claims or commits. `_freed`: they had permits until now. For a call that claims it is noted what was opened (`settled_limits`).
CREATE FUNCTION asyncjobs.open_limits(_ids bigint[], _freed boolean) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _all text[];
    _keys text[];
    _queues text[];
    _lanes text[];
    _any_suspects boolean;
BEGIN
    SELECT array_agg(DISTINCT j.limit_key), bool_or(j.suspicion > 0) INTO _all, _any_suspects FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.limit_key IS NOT NULL;
    IF _all IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(a.limit_key), array_agg(a.queue), array_agg(a.lane) INTO _keys, _queues, _lanes FROM (
        SELECT DISTINCT j.limit_key, j.queue, coalesce(j.lane, '') AS lane FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.limit_key IS NOT NULL AND j.status || '' = 'pending') AS a;
    PERFORM asyncjobs.free_permits(CASE WHEN _freed THEN _all ELSE '{}' END, coalesce(_keys, '{}'), _queues, _lanes);
    IF _any_suspects THEN
        PERFORM asyncjobs.note_suspects(_keys);
    END IF;
END $$;
