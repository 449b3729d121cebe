-- What only few jobs have, as one array that most do without: null. With a column for each of these, and without a type that has a name for
-- the answer, `finish_one` took 67 thousand instructions more (of 1,116), `finish_completed` of 10 jobs 110 (of 2,392), of 50 320.
-- Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.rest(
    _lane text, _timeout interval, _snoozes bigint, _rescues integer, _losses smallint, _suspicion smallint, _correlation_id text,
    _parent_job_id bigint, _created_by text, _dedup_key text, _requeued_from bigint, _trace_context text, _progress jsonb, _last_error text)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE
    WHEN pg_catalog.num_nonnulls(_lane, _timeout, _correlation_id, _parent_job_id, _created_by, _dedup_key, _requeued_from, _trace_context,
                                 _progress, _last_error) > 0 OR _snoozes <> 0 OR _rescues <> 0
    THEN pg_catalog.jsonb_build_array(_lane, EXTRACT(epoch FROM asyncjobs.span(_timeout)), _snoozes, _rescues, _losses, _suspicion, _correlation_id,
        _parent_job_id, _created_by, _dedup_key, _requeued_from, _trace_context, _progress::text, _last_error) END;
