-- Put jobs at the ends of their keys' lines, one after the other in this order. Their rows in `jobs` and the keys are locked. One that is
-- in its line already keeps its place.
CREATE FUNCTION asyncjobs.join_line(_ids bigint[], _keys text[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.check_places(_keys);
    INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key)
    SELECT j.id, nextval('asyncjobs.place_seq'), j.serialization_key
    FROM (SELECT u.id FROM unnest(_ids) WITH ORDINALITY AS u(id, ordinal) ORDER BY u.ordinal) AS o
    JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[o.id])
    ON CONFLICT (id) DO NOTHING;
    UPDATE asyncjobs.jobs AS j SET status = 'waiting', updated_at = asyncjobs.clock() WHERE j.id = ANY (_ids) AND j.status <> 'waiting';
END $$;
