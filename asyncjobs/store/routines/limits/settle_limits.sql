-- Close what this call has found full, closed by its rate, or without jobs: the last that it does, since it keeps exclusive locks until the
-- commit (rule 4). What cannot be locked stays open. Returns in how many seconds the first key opens that was closed.
CREATE FUNCTION asyncjobs.settle_limits() RETURNS float8 LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _touched jsonb := current_setting('asyncjobs_limits.touched', true);
    _ours integer[];
    _now timestamptz;
    _seconds float8;
BEGIN
    PERFORM set_config('asyncjobs_limits.touched', '', true);
    _ours := ARRAY(
        WITH slots AS MATERIALIZED (
            SELECT s.slot, pg_try_advisory_xact_lock(hashtext('asyncjobs.limit'), s.slot) AS is_ours
            FROM (SELECT DISTINCT hashtext(u.item ->> 0) & 4095 AS slot FROM jsonb_array_elements(_touched) AS u(item)) AS s)
        SELECT s.slot FROM slots AS s WHERE s.is_ours);
    _now := asyncjobs.moment();
    WITH closed AS (
        UPDATE asyncjobs.limit_turns AS t SET state = s.state, opens_at = CASE s.state WHEN 'closed' THEN s.opens_at END
        FROM (SELECT DISTINCT u.item ->> 0 AS key, u.item ->> 1 AS queue, u.item ->> 2 AS lane FROM jsonb_array_elements(_touched) AS u(item)) AS u
        CROSS JOIN LATERAL (
            SELECT o.opens_at, CASE
                WHEN NOT EXISTS (
                    SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = u.key AND j.queue = u.queue
                      AND coalesce(j.lane, '') = u.lane AND j.status = 'pending') THEN 'idle'
                WHEN o.opens_at > _now THEN 'closed'
                WHEN l.each <= (
                    SELECT count(1) FROM asyncjobs.jobs AS j
                    WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key = u.key AND j.runner_id IS NOT NULL) THEN 'full'
                ELSE 'open' END AS state
            FROM asyncjobs.limit_keys AS k LEFT JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(u.key)
            CROSS JOIN LATERAL (SELECT asyncjobs.key_opens_at(k, l.every, l.burst, _now) AS opens_at) AS o
            WHERE k.key = u.key) AS s
        WHERE t.key = u.key AND t.queue = u.queue AND t.lane = u.lane AND t.state = 'open' AND s.state <> 'open'
          AND hashtext(u.key) & 4095 = ANY (_ours) RETURNING t.opens_at)
    SELECT extract(epoch FROM min(c.opens_at) - _now) INTO _seconds FROM closed AS c;
    UPDATE asyncjobs.limits AS l SET is_full = true
    FROM (SELECT DISTINCT u.item ->> 0 AS name FROM jsonb_array_elements(_touched) AS u(item) WHERE u.item ->> 1 IS NULL) AS u
    WHERE l.kind = 'limit' AND l.name = u.name AND NOT l.is_full AND hashtext(u.name) & 4095 = ANY (_ours)
      AND asyncjobs.running_of(u.name, l.total) >= l.total;
    RETURN _seconds;
END $$;
