-- Make these jobs pending, in this order; they are due, and their rows are locked. `queues`: of each that is pending. `urgent_queues`: where
-- one has a better priority than most.
CREATE FUNCTION asyncjobs.make_pending(_ids bigint[], OUT promoted integer, OUT queues text[], OUT urgent_queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _limited bigint[];
    _any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses);  -- under the locks of the rows
BEGIN
    WITH due AS (
        UPDATE asyncjobs.jobs AS j
        SET status = CASE WHEN _any_paused AND asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused'
                          ELSE 'pending' END,
            place = placed.place, updated_at = asyncjobs.clock()
        FROM (SELECT o.id, nextval('asyncjobs.place_seq') AS place
              FROM (SELECT u.id FROM unnest(_ids) WITH ORDINALITY AS u(id, ordinal) ORDER BY u.ordinal) AS o) AS placed
        WHERE j.id = ANY (ARRAY[placed.id])
        RETURNING j.id, j.queue, j.priority, j.status, j.limit_key)
    SELECT count(*), array_agg(d.queue) FILTER (WHERE d.status = 'pending'),
           array_agg(DISTINCT d.queue) FILTER (WHERE d.status = 'pending' AND d.priority < 100),
           array_agg(d.id) FILTER (WHERE d.limit_key IS NOT NULL)
    INTO promoted, queues, urgent_queues, _limited FROM due AS d;
    IF _limited IS NOT NULL THEN
        PERFORM asyncjobs.request_opening(_limited, false);
    END IF;
END $$;
