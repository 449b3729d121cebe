-- A verb of an operator's in the caller's own transaction, or a look at a job: one JSON text in, one out, whatever the driver. Runners are
-- told with the commit. What the verb locks is locked until then: the job, and the key that it joins or leaves. A delay counts from now, not
-- from the transaction's start.
CREATE FUNCTION asyncjobs.verb_in_transaction(_verb text, _said text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _args jsonb := _said::jsonb;
    _id bigint := (_args ->> 'id')::bigint;
    _changes jsonb := _args -> 'changes';
    _done jsonb;
BEGIN
    IF _changes ? 'delay' THEN
        _changes := (_changes - 'delay') || jsonb_build_object('run_at',
            asyncjobs.moment() + make_interval(secs => (_changes ->> 'delay')::float8));
    END IF;
    FOR _try IN 1..5 LOOP
        CASE _verb
            WHEN 'get' THEN
                SELECT to_jsonb(j) || jsonb_build_object('payload', j.payload::text, 'errors', j.errors::text, 'result', j.result::text,
                    'progress', j.progress::text, 'timeout', extract(epoch FROM j.timeout)) INTO _done
                FROM asyncjobs.readable_jobs AS j WHERE j.id = _id;
            WHEN 'end' THEN
                SELECT to_jsonb(v) INTO _done
                FROM asyncjobs.end_job(_id, _args ->> 'wanted', _args ->> 'message', (_args ->> 'max_errors')::integer) AS v;
            WHEN 'retry' THEN
                SELECT to_jsonb(v) INTO _done FROM asyncjobs.retry_job(_id, _args ->> 'by') AS v;
            WHEN 'change' THEN
                SELECT to_jsonb(v) INTO _done FROM asyncjobs.change_job(_id, _changes) AS v;
            WHEN 'delete' THEN
                SELECT to_jsonb(v) INTO _done FROM asyncjobs.delete_job(_id) AS v;
            WHEN 'acknowledge' THEN
                SELECT to_jsonb(v) INTO _done FROM asyncjobs.acknowledge_dead_letters(ARRAY[_id], _args ->> 'by') AS v;
            WHEN 'requeue' THEN
                SELECT to_jsonb(v) || jsonb_build_object('queues',
                    CASE WHEN v.outcome = 'requeued' AND v.status = 'pending' THEN jsonb_build_array(v.queue) END) INTO _done
                FROM asyncjobs.requeue_dead_letters(ARRAY[_id], _args ->> 'by', (_args ->> 'force')::boolean) AS v;
        END CASE;
        EXIT WHEN _done ->> 'outcome' IS DISTINCT FROM 'again';
    END LOOP;
    IF _args ? 'deed' THEN
        PERFORM asyncjobs.note_verb(_args -> 'deed', coalesce(_done ->> 'outcome', CASE WHEN _done ? 'is_new' THEN 'acknowledged' ELSE 'unknown' END));
    END IF;
    PERFORM asyncjobs.tell(t.what) FROM (
        SELECT CASE WHEN _verb = 'change' THEN 'f:' ELSE 'q:' END || q.queue AS what
        FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(_done -> 'queues') = 'array' THEN _done -> 'queues' END) AS q(queue)
        UNION ALL SELECT 'x' WHERE _done ->> 'outcome' = 'requested'
        UNION ALL SELECT 'd' WHERE _done ->> 'outcome' = 'changed' AND _changes ? 'run_at') AS t;
    RETURN coalesce(_done, 'null');
END $$;
