-- A page of jobs that fit, those with the highest ids first, below `_before`. At most `_look` jobs are looked at in a call (and as many
-- that wait for their key): `next` is where the next one goes on, null when there is nothing more. Where an index says what is meant (a
-- correlation id, children of a job, what is unfinished, what is dead) only that is looked at; `_walk` goes along the ids all the same,
-- as changes of many jobs do, page by page. An index that is not in the order of the ids has to be read up to its end: one in
-- which there are more than `_look` jobs is left, and the ids are walked.
CREATE FUNCTION asyncjobs.find_jobs(
    _before bigint, _limit integer, _look integer, _walk boolean, _correlation_id text, _type text, _statuses text[], _queue text,
    _key text, _parent bigint, _payload jsonb, _error text, OUT ids bigint[], OUT statuses text[], OUT looked integer, OUT next bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _dispatched bigint[];
    _waiting bigint[];
    _floor bigint;
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _correlation_id IS NOT NULL THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = _correlation_id LIMIT _look + 1);
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.correlation_id = _correlation_id AND s.job_id IS NULL LIMIT _look + 1);
    ELSIF _parent IS NOT NULL THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.parent_job_id = _parent LIMIT _look + 1);
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.parent_job_id = _parent AND s.job_id IS NULL LIMIT _look + 1);
    ELSIF _walk THEN
        NULL;
    ELSIF _statuses <@ '{processing}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.runner_id IS NOT NULL AND j.status = 'processing' LIMIT _look + 1);
    ELSIF _statuses <@ '{pending}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'pending' LIMIT _look + 1);
    ELSIF _statuses <@ '{scheduled,failed}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed') LIMIT _look + 1);
    ELSIF _statuses <@ '{paused}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT _look + 1);
    ELSIF _statuses <@ '{waiting}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.status = 'waiting' LIMIT _look + 1);
    ELSIF _type IS NOT NULL AND _statuses <@ '{completed,cancelled}' THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j
            WHERE j.status IN ('completed', 'cancelled') AND j.type = _type LIMIT _look + 1);
    ELSIF _statuses <@ '{dead}' THEN
        _dispatched := ARRAY(SELECT DISTINCT d.job_id FROM asyncjobs.dead_letter_jobs AS d
            WHERE d.job_id < _before ORDER BY d.job_id DESC LIMIT _look);
    END IF;
    IF _key IS NOT NULL AND _waiting IS NULL THEN
        _waiting := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s
            WHERE s.serialization_key = _key AND s.job_id IS NULL ORDER BY s.place DESC LIMIT _look + 1);
    END IF;
    IF _dispatched IS NULL OR cardinality(_dispatched) > _look THEN
        _dispatched := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id < _before ORDER BY j.id DESC LIMIT _look);
    ELSE
        _dispatched := ARRAY(SELECT u.id FROM unnest(_dispatched) AS u(id) WHERE u.id < _before ORDER BY u.id DESC);
    END IF;
    IF NOT 'waiting' = ANY (_statuses) THEN
        _waiting := '{}';
    ELSIF _waiting IS NULL OR cardinality(_waiting) > _look THEN
        _waiting := ARRAY(SELECT w.id FROM (
            SELECT s.id, s.job_id FROM asyncjobs.serialized_jobs AS s WHERE s.id < _before ORDER BY s.id DESC LIMIT _look) AS w);
    ELSE
        _waiting := ARRAY(SELECT u.id FROM unnest(_waiting) AS u(id) WHERE u.id < _before ORDER BY u.id DESC);
    END IF;
    looked := cardinality(_dispatched) + cardinality(_waiting);
    -- Below the last one that a full look has seen nothing is known.
    _floor := greatest(CASE WHEN cardinality(_dispatched) >= _look THEN _dispatched[_look] END,
                       CASE WHEN cardinality(_waiting) >= _look THEN _waiting[_look] END);
    SELECT coalesce(array_agg(f.id ORDER BY f.id DESC), '{}'), coalesce(array_agg(f.status ORDER BY f.id DESC), '{}') INTO ids, statuses
    FROM (SELECT c.id, c.status FROM (
              SELECT j.id, j.status, j.type, j.queue, j.serialization_key, j.correlation_id, j.parent_job_id, j.payload, j.error_message
              FROM asyncjobs.jobs AS j WHERE j.id = ANY (_dispatched || _waiting)
              UNION ALL
              SELECT s.id, 'waiting', s.type, s.queue, s.serialization_key, s.correlation_id, s.parent_job_id, s.payload, NULL
              FROM asyncjobs.serialized_jobs AS s
              WHERE s.id = ANY (_waiting) AND s.job_id IS NULL
                AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[s.id]))) AS c
          WHERE (_floor IS NULL OR c.id >= _floor) AND (_statuses IS NULL OR c.status = ANY (_statuses))
            AND (_type IS NULL OR c.type = _type) AND (_queue IS NULL OR c.queue = _queue)
            AND (_key IS NULL OR c.serialization_key = _key) AND (_correlation_id IS NULL OR c.correlation_id = _correlation_id)
            AND (_parent IS NULL OR c.parent_job_id = _parent)
            AND (_payload IS NULL OR c.payload @> _payload)
            AND (_error IS NULL OR strpos(lower(c.error_message), lower(_error)) > 0)
          ORDER BY c.id DESC LIMIT _limit) AS f;
    next := CASE WHEN cardinality(ids) >= _limit THEN ids[_limit] ELSE _floor END;
END $$;
