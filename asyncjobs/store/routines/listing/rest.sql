-- What only few jobs have, as one array that most do without: null. With a column for each of these, and without a type that has a name for
-- the answer, `finish_one` took 67 thousand instructions more (of 1,116), `finish_completed` of 10 jobs 110 (of 2,392), of 50 320.
-- (`answer_kind` has the limit key of most.) Inlined, so it carries no SET. For the answer of a claim only: a dedup key that is held until the start is freed with it.
CREATE FUNCTION asyncjobs.rest(_j asyncjobs.jobs) RETURNS jsonb LANGUAGE sql VOLATILE RETURN CASE
    WHEN pg_catalog.num_nonnulls((_j).lane, (_j).timeout, (_j).correlation_id, (_j).parent_job_id, (_j).created_by, (_j).dedup_key,
            (_j).requeued_from, (_j).trace_context, (_j).progress, (_j).last_error, (_j).tags, (_j).start_before,
            (_j).keep_payload) > 0
         OR (_j).snoozes <> 0 OR (_j).rescues <> 0
         OR ((_j).limit_key IS NOT NULL AND ((_j).workflow_id IS NOT NULL OR (_j).on_dead IN ('ask', 'ask all')))
    THEN pg_catalog.jsonb_build_array((_j).lane, EXTRACT(epoch FROM asyncjobs.span((_j).timeout)), (_j).snoozes, (_j).rescues, (_j).losses,
        (_j).suspicion, (_j).correlation_id, (_j).parent_job_id, (_j).created_by,
        CASE WHEN (_j).dedup_until IS NULL OR (_j).status <> 'processing' THEN (_j).dedup_key
             ELSE asyncjobs.dedup_at_start((_j).id, (_j).dedup_key) END,
        (_j).requeued_from, (_j).trace_context, (_j).progress::text, (_j).last_error, COALESCE(pg_catalog.to_jsonb((_j).tags), '[]'),
        (_j).limit_key, (_j).keep_payload, EXTRACT(epoch FROM asyncjobs.instant((_j).start_before))) END;
