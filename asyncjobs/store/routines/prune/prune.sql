-- Delete at most `_batch` rows of each kind that have been kept for long enough. A kind that cannot be pruned (a stranger's trigger, a
-- replicated table that lacks an identity) keeps no other from it: `failures` says which and why. `_token` null: without a lease; else
-- nothing is done when that term is over (`held` is false).
CREATE FUNCTION asyncjobs.prune(
    _duty text, _holder text, _token bigint, _batch integer,
    _completed interval, _cancelled interval, _dead_letters interval, _runners interval, _audit interval, _types text[], _keeps interval[],
    OUT held boolean, OUT jobs integer, OUT dead_letters integer, OUT runners integer, OUT dedup_keys integer, OUT audit integer,
    OUT more boolean, OUT failures text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _with_dead_letters integer; _of_workflows integer;
    _more boolean;
BEGIN
    held := _token IS NULL OR asyncjobs.hold_lease(_duty, _holder, _token, '4 seconds');
    jobs := 0; dead_letters := 0; runners := 0; dedup_keys := 0; audit := 0; more := false; failures := '{}';
    IF NOT held THEN
        RETURN;
    END IF;
    BEGIN
        SELECT p.jobs, p.more INTO jobs, more FROM asyncjobs.prune_jobs(_batch, _completed, _cancelled, _types, _keeps) AS p;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('ended jobs: ' || SQLERRM);
    END;
    BEGIN
        SELECT p.jobs, p.dead_letters INTO _with_dead_letters, dead_letters FROM asyncjobs.prune_dead_letters(_batch, _dead_letters) AS p;
        jobs := jobs + _with_dead_letters;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('dead letters: ' || SQLERRM);
    END;
    BEGIN
        SELECT p.jobs, p.more INTO _of_workflows, _more FROM asyncjobs.prune_workflows(_batch, _completed) AS p;
        jobs := jobs + _of_workflows;
        more := more OR _more;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('workflows: ' || SQLERRM);
    END;
    BEGIN
        runners := asyncjobs.prune_runners(_batch, _runners);
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('former runners: ' || SQLERRM);
    END;
    BEGIN
        dedup_keys := asyncjobs.prune_dedup_keys(_batch);
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('dedup keys: ' || SQLERRM);
    END;
    BEGIN
        audit := asyncjobs.prune_audit(_batch, _audit);
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('the trail of verbs: ' || SQLERRM);
    END;
    BEGIN
        PERFORM asyncjobs.forget_types();
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('definitions of types: ' || SQLERRM);
    END;
    BEGIN
        more := asyncjobs.prune_limit_keys(_batch) >= _batch OR more;
    EXCEPTION WHEN OTHERS THEN
        failures := failures || ('limit keys: ' || SQLERRM);
    END;
    more := more OR dead_letters >= _batch OR runners >= _batch OR dedup_keys >= _batch OR audit >= _batch;
END $$;
