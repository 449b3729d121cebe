-- What of an enqueue an earlier call has written that was not answered: `new` has nulls for those rows. `taken`: some of the ids are
-- somebody else's, who got them from a server that had forgotten them (a fail-over); the ordinals of all rows that are not ours.
CREATE FUNCTION asyncjobs.written_before(_ids bigint[], _tokens bigint[], OUT new bigint[], OUT taken integer[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT array_agg(CASE WHEN f.is_ours IS NULL THEN r.id END ORDER BY r.ordinal),
           CASE WHEN bool_or(NOT f.is_ours)
                THEN array_agg(r.ordinal::integer ORDER BY r.ordinal) FILTER (WHERE f.is_ours IS NOT TRUE) END
    INTO new, taken
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS r(id, token, ordinal)
    LEFT JOIN LATERAL (
        SELECT j.enqueue_token IS NOT DISTINCT FROM r.token AS is_ours FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[r.id])) AS f ON true;
END $$;
