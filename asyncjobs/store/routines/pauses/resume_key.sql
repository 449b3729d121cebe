-- Resume a key. `resumed` false: it was not paused.
CREATE FUNCTION asyncjobs.resume_key(_key text, OUT resumed boolean, OUT queues text[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _heads bigint[];
BEGIN
    PERFORM asyncjobs.hold_key(_key);
    DELETE FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = _key;
    resumed := FOUND;
    WITH again AS (
        UPDATE asyncjobs.jobs AS j SET status = 'pending', place = nextval('asyncjobs.place_seq'), updated_at = asyncjobs.clock()
        FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = _key AND s.dispatched_at IS NOT NULL AND j.id = s.id AND j.status = 'paused'
          AND NOT asyncjobs.is_paused(j.type, NULL)
        RETURNING j.id)
    SELECT array_agg(a.id) INTO _heads FROM again AS a;
    PERFORM asyncjobs.request_opening(_heads, false);
    _heads := _heads || ARRAY(SELECT d.id FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d);
    queues := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
END $$;
