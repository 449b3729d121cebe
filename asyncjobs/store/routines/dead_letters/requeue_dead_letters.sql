-- Make new jobs of dead letters: the same work, with all its attempts and its dedup key, under new ids. A dead letter that was requeued before
-- is passed over unless `_force`, and so is one whose dedup key a live job has (routines/dedup). The dedup keys come first; a dead letter that
-- turns out to be requeued, or pruned, meanwhile is an error 40001: called once more. Dead letters are locked then, in the order of their ids,
-- then all keys, then lines are written: in the order of the deaths (of the ids, whatever the clock said), which is that in which each key
-- had run them. `outcome`: 'requeued', 'requeued before' (`new_id`: as which job), or 'duplicate' (`other_id`: the live job); a
-- dead letter that is not there has no row.
CREATE FUNCTION asyncjobs.requeue_dead_letters(_ids bigint[], _by text, _force boolean)
RETURNS TABLE (dead_letter_id bigint, outcome text, job_id bigint, new_id bigint, status text, queue text, other_id bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := asyncjobs.clock();
    _locked bigint[];
    _dead_letters bigint[];
    _new bigint[];
    _keys text[];
    _takers jsonb;
    _met jsonb;
BEGIN
    IF EXISTS (SELECT FROM asyncjobs.sequences_behind()) THEN
        PERFORM asyncjobs.move_sequences();
    END IF;
    SELECT k.takers, k.met INTO _takers, _met FROM asyncjobs.take_dead_letters_keys(_ids, _force) AS k;
    -- Dead letters after keys, as a retry and a replacement at a commit do. The key of a dead letter never changes.
    _keys := ARRAY(
        SELECT DISTINCT d.original_job ->> 'serialization_key' FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_ids) AND d.original_job ->> 'serialization_key' IS NOT NULL);
    PERFORM asyncjobs.lock_keys(_keys);
    _locked := ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d WHERE d.id = ANY (_ids) ORDER BY d.id FOR UPDATE);
    _dead_letters := ARRAY(
        SELECT d.id FROM asyncjobs.dead_letter_jobs AS d
        WHERE d.id = ANY (_locked) AND (_force OR d.requeued_as IS NULL) AND NOT _met ? d.id::text ORDER BY d.id);
    IF EXISTS (SELECT FROM jsonb_object_keys(_takers) AS t(dead_letter) WHERE t.dead_letter::bigint <> ALL (_dead_letters)) THEN
        RAISE EXCEPTION 'a dead letter moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    _new := ARRAY(
        SELECT coalesce((_takers ->> u.dead_letter::text)::bigint, nextval('asyncjobs.jobs_id_seq'))
        FROM unnest(_dead_letters) WITH ORDINALITY AS u(dead_letter, number) ORDER BY u.number);

    PERFORM asyncjobs.check_places(_keys);
    PERFORM asyncjobs.write_jobs(_new, array_fill(asyncjobs.fresh_token(), ARRAY[cardinality(_new)]), ARRAY(
        SELECT jsonb_populate_record(NULL::asyncjobs.new_job, (d.original_job - '{run_at,workflow_id}'::text[]) || jsonb_build_object('payload', (d.original_job -> 'payload')::text,
            'timeout_seconds', extract(epoch FROM (d.original_job ->> 'timeout')::interval), 'created_by', _by, 'requeued_from', d.job_id,
            'correlation_id', coalesce(d.original_job ->> 'correlation_id', asyncjobs.own_trace(d.job_id))))
        FROM unnest(_dead_letters) WITH ORDINALITY AS u(dead_letter, number)
        JOIN asyncjobs.dead_letter_jobs AS d ON d.id = ANY (ARRAY[u.dead_letter]) ORDER BY u.number), true, _now);
    PERFORM asyncjobs.dispatch_keys(_keys);
    PERFORM asyncjobs.request_opening(_new, false);

    UPDATE asyncjobs.dead_letter_jobs AS d
    SET requeued_as = u.id, requeue_count = d.requeue_count + 1, acknowledged = true,
        acknowledged_by = coalesce(d.acknowledged_by, _by), acknowledged_at = coalesce(d.acknowledged_at, _now)
    FROM unnest(_dead_letters, _new) AS u(dead_letter, id) WHERE d.id = ANY (ARRAY[u.dead_letter]);

    RETURN QUERY
    SELECT d.id, CASE WHEN d.id = ANY (_dead_letters) THEN 'requeued' WHEN m.other_id IS NULL THEN 'requeued before' ELSE 'duplicate' END,
        d.job_id, CASE WHEN m.other_id IS NULL THEN d.requeued_as END,
        coalesce((SELECT j.status FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[d.requeued_as])), 'gone'),
        d.original_job ->> 'queue', m.other_id
    FROM asyncjobs.dead_letter_jobs AS d CROSS JOIN LATERAL (
        SELECT CASE WHEN _force OR d.requeued_as IS NULL THEN (_met ->> d.id::text)::bigint END AS other_id) AS m
    WHERE d.id = ANY (_locked);
END $$;
