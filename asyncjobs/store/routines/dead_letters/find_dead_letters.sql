-- A page of dead letters that fit (the rules: listing/_chapter). Indexes say which are of a key, of a correlation id or of a type, in the
-- order of the ids, and which are not acknowledged. Rows are compared with two bounds, since an equation would leave the order to any
-- index.
CREATE FUNCTION asyncjobs.find_dead_letters(
    _before bigint, _limit integer, _look integer, _type text, _queue text, _key text, _correlation_id text, _error text,
    _died_after timestamptz, _died_before timestamptz, _acknowledged boolean, _error_kind text,
    OUT ids bigint[], OUT looked integer, OUT next bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _seen bigint[];
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _correlation_id IS NOT NULL THEN
        _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
            WHERE (d.original_job ->> 'correlation_id', d.id) < (_correlation_id, _before)
              AND (d.original_job ->> 'correlation_id', d.id) > (_correlation_id, 0) AND d.original_job ->> 'correlation_id' IS NOT NULL
            ORDER BY d.original_job ->> 'correlation_id' DESC, d.id DESC LIMIT _look)
            || ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id = asyncjobs.traced_job(_correlation_id)
                AND d.original_job ->> 'correlation_id' IS NULL AND d.id < _before ORDER BY d.id DESC);
    ELSIF _key IS NOT NULL THEN
        _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
            WHERE (d.original_job ->> 'serialization_key', d.id) < (_key, _before)
              AND (d.original_job ->> 'serialization_key', d.id) > (_key, 0) AND d.original_job ->> 'serialization_key' IS NOT NULL
            ORDER BY d.original_job ->> 'serialization_key' DESC, d.id DESC LIMIT _look);
    ELSE
        IF NOT _acknowledged THEN
            _seen := asyncjobs.found_below(ARRAY(
                SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE NOT d.acknowledged ORDER BY d.died_at LIMIT _look + 1), _before, _look);
        END IF;
        IF _seen IS NULL AND _type IS NOT NULL THEN
            _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
                WHERE (d.original_job ->> 'type', d.id) < (_type, _before) AND (d.original_job ->> 'type', d.id) > (_type, 0)
                ORDER BY d.original_job ->> 'type' DESC, d.id DESC LIMIT _look);
        ELSIF _seen IS NULL THEN
            _seen := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id < _before ORDER BY d.id DESC LIMIT _look);
        END IF;
    END IF;
    ids := ARRAY(
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_seen) AND (_type IS NULL OR d.original_job ->> 'type' = _type)
          AND (_queue IS NULL OR d.original_job ->> 'queue' = _queue)
          AND (_key IS NULL OR d.original_job ->> 'serialization_key' = _key)
          AND (_correlation_id IS NULL
              OR coalesce(d.original_job ->> 'correlation_id', asyncjobs.own_trace(d.job_id)) = _correlation_id)
          AND (_error IS NULL OR strpos(lower(d.error_message), lower(_error)) > 0)
          AND (_error_kind IS NULL OR asyncjobs.error_kind(d.error_message) = _error_kind)
          AND (_died_after IS NULL OR d.died_at >= _died_after) AND (_died_before IS NULL OR d.died_at < _died_before)
          AND (_acknowledged IS NULL OR d.acknowledged = _acknowledged)
        ORDER BY d.id DESC LIMIT _limit);
    looked := cardinality(_seen);
    next := asyncjobs.next_page(ids, _limit, _seen, _look);
END $$;
