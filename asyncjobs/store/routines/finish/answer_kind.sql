-- What a claim answers of a job first: what it is, and of a member, of which workflow. (As one of `rest` each member would pay for all of
-- these.) Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.answer_kind(_on_dead text, _workflow_id bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN _on_dead IN ('ask', 'ask all') THEN _on_dead || coalesce(' ' || _workflow_id::text, '')
        WHEN _workflow_id IS NULL THEN 'job' ELSE 'member ' || _workflow_id::text END;
