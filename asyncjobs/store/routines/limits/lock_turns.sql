-- Lock the open keys of a limit whose turn it is, at most `_most`, in one queue and lane, but for those of `_seen`. `keys` null: there is none,
-- or another claim has it; `places`: where their rows are, which stay there while they are locked. `ahead`: where a key goes on that had nothing to do, which is where the others are (rule 6); null if there are none.
CREATE FUNCTION asyncjobs.lock_turns(
    _queue text, _name text, _lane text, _most integer, _ahead float8, _suspects boolean, _seen text[], OUT keys text[], OUT places tid[],
    OUT turns tid[], OUT ahead float8)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _any_rested boolean;
BEGIN
    IF _most > 0 THEN
        SELECT array_agg(p.key), array_agg(p.place), array_agg(p.turn), bool_or(p.rested) INTO keys, places, turns, _any_rested FROM (
            SELECT t.key, t.rested, k.ctid AS place, t.ctid AS turn FROM asyncjobs.limit_turns AS t JOIN asyncjobs.limit_keys AS k ON k.key = t.key
            WHERE t.queue = _queue AND t.name = _name AND t.lane = _lane AND t.state = 'open' AND t.key <> ALL (_seen)
              AND (NOT _suspects OR t.has_suspects)
            ORDER BY t.served LIMIT _most FOR UPDATE SKIP LOCKED) AS p;
    END IF;
    ahead := CASE WHEN _any_rested THEN least(_ahead, asyncjobs.least_served(_queue, _name, _lane, keys)) ELSE _ahead END;
END $$;
