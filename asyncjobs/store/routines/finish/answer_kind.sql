-- What a claim answers of a job first: what it is, and of a member, of which workflow; of a job that has a limit and is nothing else, its limit
-- key. (As one of `rest` each of these would pay for all of it.) Inlined, so it carries no SET; with a
-- collation of the key's own each row would be made twice.
CREATE FUNCTION asyncjobs.answer_kind(_on_dead text, _workflow_id bigint, _limit_key text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN _on_dead IN ('ask', 'ask all') THEN _on_dead || coalesce(' ' || _workflow_id::text, '')
        WHEN _workflow_id IS NOT NULL THEN 'member ' || _workflow_id::text
        WHEN _limit_key IS NOT NULL THEN 'limit ' || _limit_key ELSE 'job' END;
