-- What is not finished, by queue, type and status, for those who look often: of each kind at most `_most` jobs are counted. Kinds of which
-- there are more come from the roll-up, with `counted_at`; one that is not in it, or was not renewed when it should have been, is partial.
-- (Left to itself the planner reads the table from its beginning, past all that is finished, to find so many; PostgreSQL 14 gathers
-- the whole index into a bitmap first.)
CREATE FUNCTION asyncjobs.depths(_most integer)
RETURNS TABLE (queue text, type text, status text, count bigint, oldest_at timestamptz, unserved bigint, counted_at timestamptz,
    is_partial boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH counted AS MATERIALIZED (
        SELECT k.kind, l.queue, l.type, l.version, l.status, count(1) AS count, min(l.since) AS oldest_at,
            sum(count(1)) OVER (PARTITION BY k.kind) > _most AS is_partial
        FROM unnest('{pending,due,paused,processing,waiting,blocked}'::text[]) AS k(kind)
        CROSS JOIN LATERAL (
            SELECT j.queue, j.type, j.version, j.status, j.since FROM asyncjobs.live_jobs AS j WHERE j.kind = k.kind LIMIT _most + 1) AS l
        GROUP BY k.kind, l.queue, l.type, l.version, l.status),
    rolled_up AS MATERIALIZED (
        SELECT d.kind, d.queue, d.type, d.version, d.status, d.count, d.oldest_at, d.counted_at FROM asyncjobs.job_depths AS d
        WHERE asyncjobs.clock() BETWEEN d.counted_at AND d.counted_at + greatest(d.took * 40, interval '2 minutes')
            AND d.kind IN (SELECT c.kind FROM counted AS c WHERE c.is_partial))
    SELECT v.queue, v.type, v.status, sum(v.count)::bigint, asyncjobs.instant(min(v.oldest_at)),
        coalesce(sum(v.count) FILTER (WHERE NOT v.served), 0)::bigint, min(v.counted_at), bool_or(v.is_partial)
    FROM (
        SELECT u.queue, u.type, u.status, u.count, u.oldest_at, u.counted_at, u.is_partial,
            asyncjobs.is_served(u.queue, u.type, u.version) AS served
        FROM (
            SELECT c.queue, c.type, c.version, c.status, c.count, c.oldest_at, NULL AS counted_at, c.is_partial FROM counted AS c
            WHERE c.kind NOT IN (SELECT r.kind FROM rolled_up AS r)
            UNION ALL
            SELECT r.queue, r.type, r.version, r.status, r.count, r.oldest_at, r.counted_at, false FROM rolled_up AS r) AS u) AS v
    GROUP BY v.queue, v.type, v.status;
END $$;
