-- Enqueue: rows of any kind in one call. The callers' batches keep plain, keyed and deduplicated rows apart.
--
-- Order inside: dedup rows, then rows of jobs that are replaced, then the locks of keys: a dedup row is never waited for under a
-- key's lock. Every statement takes a new snapshot (READ COMMITTED), which is what makes "lock, then look" right.
--
-- `_ids` were reserved by an earlier call (null: drawn here), `_tokens` say whose a row is, `_rows` what it is (`read_rows`).
-- `_again`: an earlier call with the same ids and tokens was not answered (`written_before`). `_own` false: the transaction is the
-- caller's, keyed rows join their line at its commit. `_now`: from when delays and the like count (null: from now).
--
-- What decides about the whole list is read from it in one pass: to take it apart takes 0.25 us a row.
CREATE FUNCTION asyncjobs.enqueue_rows(
    _ids bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _own boolean, _again boolean, _reserve integer, _lock_timeout text DEFAULT NULL,
    _now timestamptz DEFAULT NULL,
    OUT ids bigint[],         -- the id of each row: its own, or that of the job that has its dedup key
    OUT existing integer[],   -- ordinals of rows whose dedup key another job has
    OUT did text[],           -- what became of each of these: 'kept', 'replaced', 'dropped' (`model/new_row.py`)
    OUT refused integer[],    -- ordinals of rows that asked to be refused then, or to replace a job with another serialization key:
                              -- if there are any, nothing was written at all
    OUT statuses text[],      -- of the job that each of these met; null when it is another row of this call
    OUT taken integer[],      -- if other rows have some of the reserved ids: the ordinals that were not written, all of them
    OUT reserved bigint[],    -- ids for the next call
    OUT later integer[])      -- ordinals of rows whose time has not come; null when all are due, or the transaction is the caller's
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _new bigint[];  -- the ids of the rows that are to be written here, null for the others
    _keys text[];
    _has_dedup boolean; _has_times boolean; _has_limits boolean;
BEGIN
    _now := coalesce(_now, asyncjobs.moment());
    SELECT coalesce(array_agg(DISTINCT r.serialization_key) FILTER (WHERE r.serialization_key IS NOT NULL), '{}'),
        bool_or(r.dedup_key IS NOT NULL), bool_or(r.run_at IS NOT NULL OR r.delay_seconds IS NOT NULL), bool_or(r.limit_key IS NOT NULL)
    INTO _keys, _has_dedup, _has_times, _has_limits FROM unnest(_rows) AS r;
    PERFORM set_config('lock_timeout', _lock_timeout, true) WHERE _lock_timeout IS NOT NULL;  -- the transaction is this call
    ids := coalesce(_ids, ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM unnest(_tokens)));
    _new := ids;
    IF _again THEN
        SELECT w.new, w.taken INTO _new, taken FROM asyncjobs.written_before(ids, _tokens) AS w;
        IF taken IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF _has_dedup THEN
        SELECT m.ids, m.new, m.rows, m.existing, m.did, m.refused, m.statuses INTO ids, _new, _rows, existing, did, refused, statuses
        FROM asyncjobs.meet_duplicates(ids, _new, _rows, _own, CASE WHEN _own THEN _keys ELSE '{}' END, _now) AS m;
        IF refused IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF _own AND cardinality(_keys) > 0 THEN
        PERFORM asyncjobs.lock_keys(_keys);
        PERFORM asyncjobs.check_places(_keys);
    END IF;
    IF asyncjobs.write_jobs(_new, _tokens, _rows, _own, _now) < (SELECT count(n.id) FROM unnest(_new) AS n(id)) THEN
        SELECT w.ids, w.new INTO ids, _new FROM asyncjobs.write_rest(ids, _new, _tokens, _rows, existing, _own, _ids IS NULL, _now) AS w;
    END IF;
    IF _own AND cardinality(_keys) > 0 THEN
        PERFORM asyncjobs.dispatch_keys(_keys);
    ELSIF cardinality(_keys) > 0 THEN
        PERFORM asyncjobs.note_joining(_keys);
    END IF;
    IF _reserve > 0 THEN
        reserved := ARRAY(SELECT nextval('asyncjobs.jobs_id_seq') FROM generate_series(1, _reserve));
    END IF;
    IF _own AND _has_times THEN
        later := asyncjobs.later_rows(_rows, _now);
    END IF;
    PERFORM asyncjobs.add_to_limits(_new, _own) WHERE _has_limits;  -- it comes last: see routines/limits
END $$;
