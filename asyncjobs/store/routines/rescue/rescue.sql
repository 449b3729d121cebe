-- Take back at most `_batch` jobs from runners that are gone. Each is due at once; what that costs it `judge` says. After the last attempt,
-- or when that was asked for, it ends instead. Run it in a transaction of its own, *after* the one that deleted the runners.
--
-- The candidates' ids and tokens are read first and compared again under the row's lock, in a new statement: a job that was rescued
-- and claimed anew meanwhile, by a runner that is younger than our first snapshot, has another token by then. `_aside` are left out, and
-- where there are `_only` all others are (runtime/set_aside.py).
CREATE FUNCTION asyncjobs.rescue(
    _batch integer, _max_errors integer, _aside bigint[] DEFAULT NULL, _only bigint[] DEFAULT NULL,
    OUT rescued bigint[],
    OUT dead bigint[],       -- of these, ended for good
    OUT cancelled bigint[],
    OUT given_back bigint[], -- of runners that stopped by themselves, and what followed in runs; not among the rescued
    OUT queues text[],       -- of each job that became pending
    OUT suspects text[],     -- the queues of those that are suspects
    OUT types text[],        -- of the rescued, for the roll-ups
    OUT statuses text[],     -- and what the lost attempt made of them
    OUT more boolean)        -- the batch was full
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _candidates bigint[];
    _tokens bigint[];
    _others bigint[];
    _followers bigint[];
    _ids bigint[];
    _ending bigint[];
    _pending bigint[];
    _runners bigint[];
    _blamed bigint[];  -- of each, or 0
BEGIN
    SELECT array_agg(o.id) FILTER (WHERE o.status = 'processing'), array_agg(o.claim_token) FILTER (WHERE o.status = 'processing'),
           array_agg(o.id) FILTER (WHERE o.status <> 'processing')
    INTO _candidates, _tokens, _others FROM asyncjobs.orphans(CASE WHEN _only IS NULL THEN _batch * 10 + coalesce(cardinality(_aside), 0) ELSE 2147483647 END) AS o
    WHERE (_aside IS NULL OR o.id <> ALL (_aside)) AND (_only IS NULL OR o.id = ANY (_only));

    _ids := ARRAY(
        SELECT j.id FROM unnest(_candidates, _tokens) AS c(id, token) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[c.id]) AND j.claim_token IS NOT DISTINCT FROM c.token
        WHERE j.status = 'processing' ORDER BY c.id LIMIT _batch FOR UPDATE OF j SKIP LOCKED);
    SELECT g.others, g.given_back, g.pending INTO _ids, given_back, _pending FROM asyncjobs.give_back_of_stopped(_ids, _max_errors) AS g;
    SELECT array_agg(b.runner_id), array_agg(b.job_id) INTO _runners, _blamed FROM asyncjobs.blame(
        ARRAY(SELECT DISTINCT j.runner_id FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids))) AS b;
    SELECT g.others, g.given_back INTO _ids, _followers FROM asyncjobs.give_back_followers(_ids, _runners, _blamed) AS g;
    given_back := given_back || _followers;
    -- Jobs that end and thereby free a dedup key may have to wait for an enqueue that looks at it: each by itself, after all others.
    _ending := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.dedup_key IS NOT NULL
          AND (j.attempts >= j.max_attempts OR j.id = ANY (_blamed) OR j.requested_outcome IN ('cancel', 'dead')) ORDER BY j.id);
    rescued := ARRAY(SELECT u.id FROM unnest(_ids) AS u(id) WHERE u.id <> ALL (_ending));
    _pending := _pending || asyncjobs.fail_lost(rescued, _runners, _blamed, _max_errors);
    SELECT rescued || f.failed, _pending || f.pending INTO rescued, _pending
    FROM asyncjobs.fail_each(_ending, _runners, _blamed, _max_errors) AS f;
    _pending := _pending || asyncjobs.clear_suspects(_blamed);
    _pending := _pending || asyncjobs.finish_orphans(_others);

    dead := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued) AND j.status = 'dead');
    cancelled := ARRAY(SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued) AND j.status = 'cancelled');
    queues := ARRAY(SELECT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending) AND j.status = 'pending');
    suspects := ARRAY(SELECT DISTINCT j.queue FROM asyncjobs.jobs AS j WHERE j.id = ANY (_pending) AND j.status = 'pending' AND j.suspicion > 0);
    SELECT coalesce(array_agg(j.type), '{}'),
        coalesce(array_agg(CASE WHEN j.status IN ('dead', 'cancelled') THEN j.status ELSE 'failed' END), '{}')
    INTO types, statuses FROM asyncjobs.jobs AS j WHERE j.id = ANY (rescued);
    more := cardinality(rescued) + cardinality(given_back) >= _batch;
END $$;
