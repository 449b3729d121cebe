-- Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.answer_kind(_on_dead text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE _on_dead WHEN 'advance' THEN 'job' WHEN 'halt' THEN 'job' ELSE _on_dead END;
