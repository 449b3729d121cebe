-- What the lab needs in the database: a copy of the world, the duties, and a look at everything.

-- All duties have had their turn.
CREATE FUNCTION lab.settle() RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    _keys text[];
    _look record;
BEGIN
    FOR i IN 1 .. 3 LOOP
        PERFORM asyncjobs.rescue(9, 10), asyncjobs.converge_pauses(9, 9, '1 day');
        SELECT p.keys INTO _keys FROM asyncjobs.promote(9, NULL, NULL) AS p;
        IF cardinality(_keys) > 0 THEN
            PERFORM asyncjobs.promote_keyed(_keys, 9);
        END IF;
        PERFORM asyncjobs.advance_keys(array_agg(r.serialization_key), array_agg(r.id))
        FROM asyncjobs.dispatch_requests AS r HAVING count(*) > 0;
        SELECT * INTO _look FROM asyncjobs.look_at_keys('', NULL, 99);
        PERFORM asyncjobs.release_ended(e.id) FROM unnest(_look.ended) AS e(id);
        IF cardinality(_look.stalled) > 0 THEN
            PERFORM asyncjobs.advance_keys(_look.stalled, NULL);
        END IF;
        PERFORM asyncjobs.rejoin(_look.lost);
    END LOOP;
END $$;

-- The tables, as far as they say something. `late`: what was claimed since, of what is paused now, and when that was committed.
CREATE FUNCTION lab.look() RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_object(
    'names', (
        SELECT jsonb_object_agg(n.id, (n.payload #>> '{}') || CASE WHEN n.requeued_from IS NULL THEN '' ELSE '*' END)
        FROM (SELECT id, payload, requeued_from FROM asyncjobs.jobs) AS n),
    'jobs', (
        SELECT jsonb_agg(jsonb_build_object('id', id, 'status', status, 'attempts', attempts, 'snoozes', snoozes, 'rescues', rescues,
            'runner', runner_id, 'requested', requested_outcome, 'is_later', run_at > now() + interval '1 min',
            'has_ended', completed_at IS NOT NULL, 'payload', payload, 'key', serialization_key, 'dedup', dedup_key))
        FROM asyncjobs.jobs),
    'pending', (SELECT jsonb_agg(id ORDER BY rescues, place) FROM asyncjobs.jobs WHERE status = 'pending'),
    'line', (
        SELECT jsonb_agg(jsonb_build_object('id', id, 'is_head', dispatched_at IS NOT NULL, 'is_halted', halted_at IS NOT NULL,
            'has_place', place IS NOT NULL, 'key', serialization_key)
            ORDER BY serialization_key, place)
        FROM asyncjobs.serialized_jobs),
    'dedup', (
        SELECT jsonb_agg(jsonb_build_array(dedup_key, job_id, live, expires_at > now()) ORDER BY dedup_key) FROM asyncjobs.dedup_keys),
    'dead_letters', (
        SELECT jsonb_agg(jsonb_build_array(job_id, requeued_as, requeue_count, acknowledged, original_job -> 'payload') ORDER BY id)
        FROM asyncjobs.dead_letter_jobs),
    'pauses', (SELECT jsonb_agg(jsonb_build_array(kind, name) ORDER BY kind) FROM asyncjobs.pauses),
    'leases', (SELECT jsonb_agg(jsonb_build_array(job_name, held_by_worker_id, token, renewals)) FROM asyncjobs.background_job_leases),
    'breakers', (
        SELECT jsonb_agg(jsonb_build_array(service_name, state, failure_count, success_count, probe_tokens, version))
        FROM asyncjobs.circuit_breakers),
    'schedules', (
        SELECT jsonb_agg(jsonb_build_array(name, CASE WHEN last_tick < '2021-01-01' THEN extract(day FROM last_tick) END, enabled, disabled_because,
            last_job_id IS NOT NULL)) FROM asyncjobs.schedules),
    'runners', (SELECT jsonb_agg(id ORDER BY id) FROM asyncjobs.runners),
    'requests', (SELECT count(*) FROM asyncjobs.dispatch_requests),
    'late', (
        SELECT jsonb_agg(jsonb_build_array(j.id, p.kind, extract(epoch FROM pg_xact_commit_timestamp(j.xmin))))
        FROM asyncjobs.jobs AS j JOIN asyncjobs.pauses AS p
            ON p.name = CASE p.kind WHEN 'key' THEN j.serialization_key WHEN 'type' THEN j.type ELSE j.queue END
        WHERE j.status = 'processing' AND j.requested_outcome IS NULL  -- else the row was written by whoever asked for its end
          AND NOT EXISTS (SELECT FROM lab.jobs AS o WHERE o.id = j.id AND o.status = 'processing' AND o.attempts = j.attempts)),
    'audit', (SELECT jsonb_agg(jsonb_build_array(job_id, problem)) FROM lab.audit)) $$;

-- The look before the duties, and the one after them.
CREATE FUNCTION lab.ends() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    _before jsonb := lab.look();
BEGIN
    PERFORM lab.settle();
    RETURN jsonb_build_array(_before, lab.look());
END $$;
