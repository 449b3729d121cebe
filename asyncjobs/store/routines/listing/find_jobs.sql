-- A page of jobs that fit (the rules: listing/_chapter). Indexes say which jobs are of a workflow (in the order of the ids), have a
-- correlation id, are children of a job, unfinished, or dead; `_walk` goes along the ids all the same, as changes of many jobs do, page by page.
CREATE FUNCTION asyncjobs.find_jobs(
    _before bigint, _limit integer, _look integer, _walk boolean, _correlation_id text, _type text, _statuses text[], _queue text,
    _key text, _parent bigint, _payload jsonb, _error text, _tags text[], _dedup_key text, _limit_key text, _priority integer, _ids bigint[],
    _created_after timestamptz, _created_before timestamptz, _since timestamptz, _until timestamptz, _workflow bigint,
    OUT ids bigint[], OUT statuses text[], OUT looked integer, OUT next bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _seen bigint[];
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _ids IS NOT NULL THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) LIMIT _look + 1);
    ELSIF _workflow IS NOT NULL THEN
        _seen := ARRAY(SELECT m.job_id FROM asyncjobs.members AS m WHERE m.workflow_id = _workflow AND -m.job_id > -_before ORDER BY -m.job_id LIMIT _look);
    ELSIF _correlation_id IS NOT NULL THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.correlation_id = _correlation_id LIMIT _look + 1)
            || ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = asyncjobs.traced_job(_correlation_id) AND j.correlation_id IS NULL);
    ELSIF _parent IS NOT NULL THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.parent_job_id = _parent LIMIT _look + 1);
    ELSIF _key IS NOT NULL AND _statuses <@ '{waiting}' THEN
        _seen := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.serialization_key = _key LIMIT _look + 1);
    ELSIF _limit_key IS NOT NULL AND _statuses <@ '{pending,processing}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) IN (0, 1) AND j.limit_key = _limit_key AND (j.status = 'pending' OR j.runner_id IS NOT NULL) LIMIT _look + 1);
    ELSIF _walk THEN NULL;
    ELSIF _statuses <@ '{processing}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.status = 'processing' LIMIT _look + 1);
    ELSIF _statuses <@ '{pending}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'pending' AND j.limit_key IS NULL LIMIT _look + 1) || ARRAY(
            SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'pending' AND j.limit_key IS NOT NULL LIMIT _look + 1);
    ELSIF _statuses <@ '{scheduled,failed}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed') LIMIT _look + 1);
    ELSIF _statuses <@ '{paused}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT _look + 1);
    ELSIF _statuses <@ '{waiting,blocked}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status IN ('waiting', 'blocked') LIMIT _look + 1);
    ELSIF _type IS NOT NULL AND _statuses <@ '{completed,cancelled}' THEN
        _seen := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.status IN ('completed', 'cancelled') AND j.type = _type LIMIT _look + 1);
    ELSIF _statuses <@ '{dead}' THEN
        _seen := ARRAY(SELECT DISTINCT d.job_id FROM asyncjobs.dead_letter_jobs AS d
            WHERE d.job_id < _before ORDER BY d.job_id DESC LIMIT _look);
    END IF;
    _seen := coalesce(asyncjobs.found_below(_seen, _before, _look), ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id < _before ORDER BY j.id DESC LIMIT _look));
    SELECT coalesce(array_agg(f.id ORDER BY f.id DESC), '{}'), coalesce(array_agg(f.status ORDER BY f.id DESC), '{}') INTO ids, statuses
    FROM (SELECT j.id, j.status FROM asyncjobs.jobs AS j
          WHERE j.id = ANY (_seen) AND (_statuses IS NULL OR j.status = ANY (_statuses))
            AND (_type IS NULL OR j.type = _type) AND (_queue IS NULL OR j.queue = _queue)
            AND (_key IS NULL OR j.serialization_key = _key)
            AND (_correlation_id IS NULL OR coalesce(j.correlation_id, asyncjobs.own_trace(j.id)) = _correlation_id)
            AND (_parent IS NULL OR j.parent_job_id = _parent) AND (_payload IS NULL OR j.payload @> _payload)
            AND (_tags IS NULL OR j.tags @> _tags) AND (_dedup_key IS NULL OR j.dedup_key = _dedup_key)
            AND (_limit_key IS NULL OR j.limit_key = _limit_key) AND (_priority IS NULL OR j.priority = _priority) AND (_ids IS NULL OR j.id = ANY (_ids))
            AND (_created_after IS NULL OR j.created_at >= _created_after) AND (_created_before IS NULL OR j.created_at < _created_before)
            AND (_since IS NULL OR j.updated_at >= _since) AND (_until IS NULL OR j.updated_at < _until) AND (_workflow IS NULL OR j.workflow_id = _workflow)
            AND (_error IS NULL OR strpos(lower(j.error_message), lower(_error)) > 0)
          ORDER BY j.id DESC LIMIT _limit) AS f;
    looked := cardinality(_seen);
    next := asyncjobs.next_page(ids, _limit, _seen, _look);
END $$;
