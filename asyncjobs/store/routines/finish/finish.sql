-- One call of a runner: outcomes in (`ack`), lost claims and new claims out (`claim_scans`). It gives up waiting for a lock after a
-- moment, as the lean calls do: a caller's open transaction may hold it, and the call is of all the runner's jobs.
CREATE FUNCTION asyncjobs.finish(
    _runner bigint, _ids bigint[], _tokens bigint[], _outcomes text[], _results text[], _max_errors integer,
    _scan_queues text[], _scan_lanes text[], _scan_limits integer[], _scan_slots integer[], _scan_priorities integer[], _scan_places bigint[],
    _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint, _probes text,
    _followers text DEFAULT NULL, _ahead text DEFAULT NULL)
RETURNS SETOF asyncjobs.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _written bigint[];
    _pending bigint[];
    _versions jsonb;
    _row asyncjobs.answer;
BEGIN
    IF cardinality(_ids) > 0 THEN
        SELECT a.written, a.pending INTO _written, _pending FROM asyncjobs.ack(_ids, _tokens, _outcomes, _results, _max_errors, _followers::bigint[]) AS a;
        IF coalesce(cardinality(_written), 0) < cardinality(_ids) THEN
            RETURN QUERY SELECT l.* FROM asyncjobs.lost(_ids, _tokens, _written) AS l;
        END IF;
    END IF;
    IF cardinality(_scan_queues) > 0 THEN
        -- Held until the commit: a runner that declares this one dead waits, and then sees these claims.
        SELECT r.versions INTO _versions FROM asyncjobs.runners AS r WHERE r.id = _runner FOR KEY SHARE;
        IF FOUND THEN
            RETURN QUERY SELECT c.* FROM asyncjobs.claim_scans(_runner, _versions, _scan_queues, _scan_lanes, _scan_limits, _scan_slots, _scan_priorities,
                _scan_places, _types, _suspects, _token_base, _token_seq, _probes::jsonb, _ahead::integer[]) AS c;
        ELSE
            _row.kind := 'gone';
            RETURN NEXT _row;
        END IF;
    END IF;
    IF _pending IS NOT NULL THEN
        RETURN QUERY SELECT h.* FROM asyncjobs.heads(_pending) AS h;
    END IF;
    IF current_setting('asyncjobs_limits.touched', true) <> '' OR current_setting('asyncjobs_limits.opened', true) <> '' THEN
        RETURN QUERY SELECT s.* FROM asyncjobs.settled_limits() AS s;
    END IF;
END $$;
