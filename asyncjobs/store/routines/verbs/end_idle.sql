-- End jobs that do not run: an operator's verb ends them, or their time is over (routines/expiry). Their rows are locked. The one place
-- where what no attempt ended gets its end: the row, a dead letter where it is `dead`, the dedup key, the key of its line, which goes on,
-- and its arrival at gates. `ended`: their ids and types. `queues`: of each next head of a key, or dependent, that became pending. A job that
-- waits in its line leaves it first (`end_waiting`): its key has a head, and there is nothing to let go.
--
-- What attempts came to is written elsewhere, with what goes on, in one statement: `ack`, and `fail_lost` for runners that are gone. To end
-- their jobs here would write the row twice, and would be a statement and a function more: of the 1,049 thousand instructions of a call
-- that writes one outcome, beginning and ending statements takes 255, and the settings of a function 18 (bench/NOTES.md). That all ends
-- look alike is held by tests/store/test_ends.py.
CREATE FUNCTION asyncjobs.end_idle(_ids bigint[], _status text, _message text, _max_errors integer, OUT ended jsonb, OUT queues text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _now timestamptz := asyncjobs.moment();
    _killed jsonb := jsonb_build_object('at', _now, 'type', 'Killed', 'message', _message);
    _dedup bigint[];
    _keyed bigint[];
    _members bigint[];
    _heads bigint[];
BEGIN
    WITH written AS (
        UPDATE asyncjobs.jobs AS j
        SET status = _status, completed_at = _now, error_message = _message, updated_at = _now, runner_id = NULL,
            errors = CASE WHEN _status <> 'dead' THEN j.errors
                          ELSE asyncjobs.with_error(j.errors, _killed || jsonb_build_object('attempt', j.attempts), _max_errors) END
        WHERE j.id = ANY (_ids) RETURNING j.id, j.type, j.dedup_key, j.serialization_key, j.workflow_id)
    SELECT jsonb_agg(jsonb_build_array(w.id, w.type)), array_agg(w.id) FILTER (WHERE w.dedup_key IS NOT NULL),
        array_agg(w.id) FILTER (WHERE w.serialization_key IS NOT NULL), array_agg(w.id) FILTER (WHERE w.workflow_id IS NOT NULL)
    INTO ended, _dedup, _keyed, _members FROM written AS w;
    IF _status = 'dead' THEN
        PERFORM asyncjobs.bury(_ids);
    END IF;
    IF _dedup IS NOT NULL THEN
        PERFORM asyncjobs.end_dedup(_dedup);
    END IF;
    IF _keyed IS NOT NULL THEN
        _heads := asyncjobs.let_keys_go(_keyed, CASE WHEN _status = 'dead' THEN _keyed ELSE '{}' END);
    END IF;
    IF _members IS NOT NULL THEN
        _heads := _heads || asyncjobs.arrive(_members);
    END IF;
    IF _heads IS NOT NULL THEN
        queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_heads) AND j.status = 'pending');
    END IF;
END $$;
