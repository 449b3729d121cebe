-- Write members that a running member adds: whoever waits for it waits for them, too. They are its own under the claim of this token:
-- `is_lost` if it is another's by now, `is_alone` if the job is no member. Each has a number among what its job has spawned, from `_from`, by which a
-- second attempt finds what the first has written. The member that spawns has not arrived, so none of its gates can have opened; an arrival of
-- minus so many, committed before its own, keeps them closed. `are_new`: whether this call has written them.
CREATE FUNCTION asyncjobs.spawn_members(
    _job bigint, _token bigint, _from integer, _documents text[], OUT ids bigint[], OUT is_lost boolean, OUT is_alone boolean, OUT are_new boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '2s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.clock();
    _workflow bigint;
    _gates bigint[];
    _made asyncjobs.new_job[];
    _new bigint[];
    _refused integer[];
BEGIN
    is_alone := false;
    are_new := false;
    PERFORM FROM asyncjobs.jobs AS j WHERE j.id = _job AND j.claim_token = _token AND j.status = 'processing' FOR UPDATE;
    is_lost := NOT FOUND;
    IF is_lost THEN
        RETURN;
    END IF;
    SELECT m.workflow_id, m.gates INTO _workflow, _gates FROM asyncjobs.members AS m WHERE m.job_id = _job;
    is_alone := NOT FOUND;
    IF is_alone THEN
        RETURN;
    END IF;
    _made := ARRAY(SELECT jsonb_populate_recordset(
        jsonb_populate_record(NULL::asyncjobs.new_job, jsonb_build_object('workflow_id', _workflow, 'on_duplicate', 'raise')), d.document::jsonb)
        FROM unnest(_documents) AS d(document));
    ids := ARRAY(SELECT m.job_id FROM asyncjobs.members AS m
        WHERE m.spawned_by = _job AND m.spawn_number >= _from AND m.spawn_number < _from + cardinality(_made) ORDER BY m.spawn_number);
    IF cardinality(ids) > 0 OR cardinality(_made) = 0 THEN
        RETURN;  -- they were written together
    END IF;
    SELECT e.ids, e.refused INTO _new, _refused
    FROM asyncjobs.enqueue_rows(NULL, array_fill(asyncjobs.fresh_token(), ARRAY[cardinality(_made)]), _made, true, false, 0, NULL, _now) AS e;
    IF _refused IS NOT NULL THEN
        RAISE EXCEPTION 'member % of those that are spawned has a dedup key that job % has', _refused[1], _new[_refused[1]]
            USING ERRCODE = 'unique_violation';
    END IF;
    INSERT INTO asyncjobs.members (job_id, workflow_id, number, gates, spawned_by, spawn_number)
    SELECT u.id, _workflow, 4294967296 + u.id, _gates, _job, _from + u.number - 1 FROM unnest(_new) WITH ORDINALITY AS u(id, number);
    PERFORM asyncjobs.leave_arrivals(ARRAY(
        SELECT ROW(g.id, -cardinality(_new), 0, NULL)::asyncjobs.arrival FROM unnest(_workflow || _gates) AS g(id)));
    ids := _new;
    are_new := true;
    PERFORM asyncjobs.announce(_made, NULL, _now);
END $$;
