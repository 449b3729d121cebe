-- The door: the same with one JSON text in and one row out, for a connection of the caller's, whatever its driver, and for roles that
-- may enqueue and nothing else. It notifies inside the transaction if a channel is given.
--
-- 1. It runs with the rights of the schema's owner. So do the triggers at the commit. A role that enqueues needs a right to this and
--    to `give_ids`, and none to write to any table: of a row it says what an enqueue says; status, place and key's line are decided here.
-- 2. Ids of the caller's (on connections of asyncjobs' own, where a call is made again after its answer was lost) come with the proof
--    that the database gave them: with an id of its choice a role could put its own row in front of another's job of a key.
-- 3. Rows are replaced where on_duplicate and the dedup key say so, and only if they have not started: the rules of routines/dedup.
-- 4. A process that dies in between has lost some ids, which nobody else gets.
CREATE FUNCTION asyncjobs.enqueue_here(
    _rows text, _channel text, _ids bigint[] DEFAULT NULL, _proofs bigint[] DEFAULT NULL, _own boolean DEFAULT false,
    _again boolean DEFAULT false, _lock_timeout text DEFAULT NULL,
    OUT ids bigint[], OUT existing integer[], OUT refused integer[], OUT statuses text[], OUT taken integer[], OUT later integer[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
BEGIN
    IF _ids IS NOT NULL AND asyncjobs.proofs(_ids) IS DISTINCT FROM _proofs THEN
        RAISE EXCEPTION 'these ids were not given by give_ids' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT e.ids, e.existing, e.refused, e.statuses, e.taken, e.later INTO ids, existing, refused, statuses, taken, later
    FROM (SELECT array_agg(r.enqueue_token ORDER BY o) AS tokens, array_agg(r.type ORDER BY o) AS types,
            array_agg(r.queue ORDER BY o) AS queues, array_agg(r.lane ORDER BY o) AS lanes, array_agg(r.version ORDER BY o) AS versions,
            array_agg(r.payload ORDER BY o) AS payloads, array_agg(r.priority ORDER BY o) AS priorities,
            array_agg(r.max_attempts ORDER BY o) AS max_attempts, array_agg(r.timeout_seconds ORDER BY o) AS timeouts,
            array_agg(r.run_at ORDER BY o) AS run_ats, array_agg(r.delay_seconds ORDER BY o) AS delays,
            array_agg(r.correlation_id ORDER BY o) AS correlation_ids, array_agg(r.parent_job_id ORDER BY o) AS parent_job_ids,
            array_agg(r.created_by ORDER BY o) AS creators, array_agg(r.dedup_key ORDER BY o) AS dedup_keys,
            array_agg(r.dedup_for_seconds ORDER BY o) AS dedup_fors, array_agg(r.on_duplicate ORDER BY o) AS on_duplicates,
            array_agg(r.serialization_key ORDER BY o) AS keys, array_agg(r.on_dead ORDER BY o) AS on_deads,
            array_agg(r.trace_context ORDER BY o) AS trace_contexts, count(r.dedup_key) > 0 AS dedup, count(r.serialization_key) > 0 AS keyed
          FROM jsonb_array_elements(_rows::jsonb) WITH ORDINALITY AS x(item, o)
          CROSS JOIN LATERAL jsonb_to_record(x.item) AS r(enqueue_token bigint, type text, queue text, lane text, version integer,
            payload text, priority integer, max_attempts integer, timeout_seconds float8, run_at timestamptz, delay_seconds float8,
            correlation_id text, parent_job_id bigint, created_by text, dedup_key text, dedup_for_seconds float8, on_duplicate text,
            serialization_key text, on_dead text, trace_context text)) AS a
    CROSS JOIN LATERAL asyncjobs.enqueue(_ids, a.tokens, a.types, a.queues, a.lanes, a.versions, a.payloads, a.priorities,
        a.max_attempts, a.timeouts, a.run_ats, a.delays, a.correlation_ids, a.parent_job_ids, a.creators,
        CASE WHEN a.dedup THEN a.dedup_keys END, a.dedup_fors, a.on_duplicates, CASE WHEN a.keyed THEN a.keys END, a.on_deads,
        a.trace_contexts, _own, _again, 0, _lock_timeout, false, _now) AS e;
    IF NOT _own AND _rows::jsonb @> '[{"notify": false}]' THEN
        PERFORM set_config('asyncjobs_notify.is_off', 'on', true);
    END IF;
    IF _channel IS NOT NULL AND refused IS NULL THEN
        PERFORM asyncjobs.announce(_rows::jsonb, existing, _now);
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.enqueue_here FROM PUBLIC;
