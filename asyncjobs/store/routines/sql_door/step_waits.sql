-- For what a step waits: a list of [name, rule], each name once, by the stricter rule where there are two.
CREATE FUNCTION asyncjobs.step_waits(_who text, _step jsonb, _known jsonb, _taken text[]) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _after text[];
    _when text := asyncjobs.read_choice('when', nullif(_step -> 'when', 'null'), '{completed,ended}');
    _wrong text;
BEGIN
    _after := CASE jsonb_typeof(_step -> 'after') WHEN 'string' THEN ARRAY[_step ->> 'after']
        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(_step -> 'after')) ELSE '{}' END;
    SELECT a.name INTO _wrong FROM unnest(_after) AS a(name) WHERE NOT _known ? a.name LIMIT 1;
    IF FOUND OR coalesce(jsonb_typeof(_step -> 'after'), 'null') NOT IN ('string', 'array', 'null') THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('%s is to run after %s, and no job before it has that name.', _who,
            coalesce(quote_ident(_wrong), asyncjobs.shown(_step -> 'after'))), 'Give the name of a job or a group, or a list of them.');
    ELSIF _when IS NOT NULL AND _after = '{}' THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('%s: when="%s" says how "after" is meant, and there is none.', _who, _when),
            'What a payload names has always to complete.');
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(jsonb_build_array(w.name, w.rule)), '[]') FROM (
        SELECT u.name, min(u.rule) AS rule FROM (
            SELECT t.name, 'completed' AS rule FROM unnest(_taken) AS t(name)
            UNION ALL SELECT a.name, coalesce(_when, 'completed') FROM unnest(_after) AS a(name)) AS u
        GROUP BY u.name) AS w);
END $$;
