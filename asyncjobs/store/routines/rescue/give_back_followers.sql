-- Of jobs that were lost (processing, and locked), those that follow in runs wait again in their places, with their attempts (finish/_chapter,
-- 7). What keeps one from that was asked of it: its end, which the rescue carries out. `others`: what is to be judged. One whose place
-- another transaction has is left to the next pass.
--
-- It is not known how far a run had come: one of these may be what killed the runner. So each was lost once, unless another job is to
-- blame, and what was lost is in no run: they run one by one, each as the head of its key, until an attempt of theirs has ended.
CREATE FUNCTION asyncjobs.give_back_followers(
    _ids bigint[], _runners bigint[], _blamed bigint[], OUT others bigint[], OUT given_back bigint[]) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _follow bigint[] := ARRAY(SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.dispatched_at IS NULL);
    _free bigint[];
BEGIN
    given_back := '{}';
    others := _ids;
    IF cardinality(_follow) = 0 THEN
        RETURN;
    END IF;
    _free := ARRAY(
        SELECT s.id FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_follow)
        ORDER BY s.serialization_key COLLATE "C", s.place FOR UPDATE SKIP LOCKED);
    given_back := ARRAY(
        SELECT s.id FROM asyncjobs.serialized_jobs AS s JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[s.id])
        WHERE s.id = ANY (_free) AND s.dispatched_at IS NULL AND coalesce(j.requested_outcome, 'fail') = 'fail' ORDER BY s.id);
    others := ARRAY(
        SELECT u.id FROM unnest(_ids) AS u(id) WHERE u.id <> ALL (given_back) AND (u.id <> ALL (_follow) OR u.id = ANY (_free)));
    UPDATE asyncjobs.jobs AS j
    SET status = 'pending', attempts = greatest(j.attempts - 1, 0), claim_token = NULL, runner_id = NULL, started_at = NULL,
        losses = CASE WHEN coalesce(b.job_id, 0) = 0 THEN least(j.losses + 1, 32767) ELSE j.losses END,
        lost_with = CASE WHEN coalesce(b.job_id, 0) = 0 THEN j.runner_id ELSE j.lost_with END,
        requested_outcome = NULL, request_message = NULL, cancel_requested_at = NULL, updated_at = asyncjobs.clock()
    FROM unnest(given_back) AS g(id) JOIN asyncjobs.jobs AS o ON o.id = ANY (ARRAY[g.id])
    LEFT JOIN unnest(_runners, _blamed) AS b(runner_id, job_id) ON b.runner_id = o.runner_id
    WHERE j.id = o.id;
    PERFORM asyncjobs.wait_again(given_back);
END $$;
