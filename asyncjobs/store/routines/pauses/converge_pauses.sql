-- Make the rows say what `pauses` and the runners say, a batch of them: pending jobs of a paused type become paused (`hold_back`), paused
-- ones whose type and key are not any more become pending, behind what is pending (`let_go`). Of the latter only those that asyncjobs had made so (`holds`): a
-- row that was written to since the pause was seen to have ended was paused by hand. Ten minutes later the hold is forgotten: nobody who
-- had still seen the pause is about to write. What is dated later than now was written before the clock was set back: perhaps because of
-- the pause, so it is let go. A caller that comes too late for one of several finds the row done. Rows that are locked are left
-- for the next call. Without bitmaps and sorts, and without the status where the row is locked already: plans made for empty tables
-- would collect all pending jobs, or all paused ones, to find one.
--
-- What no runner can run is treated like jobs of a paused type where it is in the way. It comes back when a runner registers that can. What
-- a runner could that was there within `_grace`, and a job that is due for a shorter time, are left alone: most often the runner is
-- just being replaced.
CREATE FUNCTION asyncjobs.converge_pauses(
    _batch integer, _window integer, _grace interval,
    OUT held integer,    -- pending -> paused
    OUT resumed integer, -- paused -> pending
    OUT queues text[],   -- where they became pending
    OUT more boolean)    -- call again: there may be others
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _paused text[] := ARRAY(SELECT p.name FROM asyncjobs.pauses AS p WHERE p.kind = 'type');
    _served text[];
    _versions jsonb;
BEGIN
    SELECT s.types, s.versions INTO _served, _versions FROM asyncjobs.served(_grace) AS s;
    PERFORM asyncjobs.end_holds();  -- before any row of a job: who pauses has the row of `holds` and then wants those
    held := asyncjobs.hold_back(_batch, _window, _grace, _paused, _served, _versions);
    SELECT g.resumed, g.queues INTO resumed, queues FROM asyncjobs.let_go(_batch, _paused, _served, _versions) AS g;
    more := held > 0 OR resumed >= _batch;
    DELETE FROM asyncjobs.holds AS h
    WHERE h.ended_at < asyncjobs.clock() - interval '10 minutes' OR (
        h.kind = 'unserved' AND h.since < asyncjobs.clock() - interval '10 minutes'
        AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.status = 'paused' AND j.type = h.name AND j.version = h.version));
END $$;
