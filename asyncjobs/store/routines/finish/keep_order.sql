-- Of outcomes that are to be written, those of `_followers` that may not be, since a job is in front of them in their line that does not end
-- with them: these wait again, and their claims are lost. (`_outcomes` as in `ack`; null: all are completions.) All rows of the call are locked first, in the order of their
-- ids: what is in front of a follower stays ours until both are written.
--
-- A line is looked at from its head on: before it are only rows that were deleted since the last vacuum. It is in order when as many rows are
-- there, up to the last of ours, as are ours.
CREATE FUNCTION asyncjobs.keep_order(_ids bigint[], _tokens bigint[], _outcomes text[], _followers bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _ours bigint[] := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j
        WHERE j.id = ANY (_ids) AND j.claim_token = ANY (_tokens) AND j.status = 'processing' ORDER BY j.id FOR UPDATE);
    _ended bigint[] := _ids;
    _keys text[];
    _early bigint[];
BEGIN
    IF _outcomes IS NOT NULL THEN  -- what was given back before it began is not written, either
        _ended := ARRAY(
            SELECT o.id FROM unnest(_ids, _outcomes) AS o(id, outcome)
            WHERE coalesce(o.outcome::jsonb ->> 'status', 'completed') IN ('completed', 'dead', 'cancelled'));
        _followers := ARRAY(
            SELECT o.id FROM unnest(_ids, _outcomes) AS o(id, outcome)
            WHERE o.id = ANY (_followers) AND o.outcome::jsonb -> 'unbegun' IS NULL);
    END IF;
    IF cardinality(_ours) < cardinality(_ids) THEN
        _ended := ARRAY(SELECT u.id FROM unnest(_ended) AS u(id) WHERE u.id = ANY (_ours));
        _followers := ARRAY(SELECT u.id FROM unnest(_followers) AS u(id) WHERE u.id = ANY (_ours));
    END IF;
    _keys := ARRAY(
        SELECT e.key FROM (
            SELECT s.serialization_key AS key, count(1) AS count, max(s.place) AS place FROM asyncjobs.serialized_jobs AS s
            WHERE s.id = ANY (_ended || _followers) GROUP BY s.serialization_key HAVING count(1) > count(s.dispatched_at)) AS e
        WHERE e.count < (
            SELECT count(1) FROM asyncjobs.serialized_jobs AS f
            WHERE f.serialization_key = e.key AND f.place <= e.place AND f.place >= coalesce((
                SELECT d.place FROM asyncjobs.serialized_jobs AS d WHERE d.serialization_key = e.key AND d.dispatched_at IS NOT NULL), 0))
        UNION
        SELECT s.serialization_key FROM asyncjobs.serialized_jobs AS s
        WHERE cardinality(_ended) < cardinality(_ids) AND s.id = ANY (_followers) AND s.id <> ALL (_ended) AND s.dispatched_at IS NULL);
    IF cardinality(_keys) = 0 THEN
        RETURN;
    END IF;
    _early := ARRAY(
        SELECT s.id FROM (
            SELECT k.key, (SELECT f.place FROM asyncjobs.serialized_jobs AS f
                           WHERE f.serialization_key = k.key AND f.id <> ALL (_ended) ORDER BY f.place LIMIT 1) AS place
            FROM unnest(_keys) AS k(key)) AS other
        JOIN asyncjobs.serialized_jobs AS s ON s.serialization_key = other.key AND s.place > other.place
        WHERE s.id = ANY (_followers));
    IF cardinality(_early) > 0 THEN
        UPDATE asyncjobs.jobs AS j
        SET status = 'pending', attempts = greatest(j.attempts - 1, 0), claim_token = NULL, runner_id = NULL, started_at = NULL,
            updated_at = asyncjobs.clock()
        WHERE j.id = ANY (_early);
        PERFORM asyncjobs.wait_again(_early);
    END IF;
END $$;
