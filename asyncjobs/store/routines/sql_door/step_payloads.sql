-- The payloads of a step with the numbers of members in the places of names, as declare/upstream.py writes them; `taken`: the names. `_known`:
-- of each name the numbers of its first and last member, and whether it is a group. In a canonical text of JSON a quote inside a string is
-- escaped, so no string looks like a name.
CREATE FUNCTION asyncjobs.step_payloads(_who text, _step jsonb, _known jsonb, OUT payloads jsonb[], OUT taken text[]) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _text text := (CASE WHEN _step ? 'payloads' THEN _step -> 'payloads' ELSE jsonb_build_array(coalesce(_step -> 'payload', '{}')) END)::text;
    _found record;
    _of jsonb;
BEGIN
    taken := '{}';
    FOR _found IN
        SELECT DISTINCT m.match[1] AS whole, m.match[2] AS kind, (m.match[3])::jsonb #>> '{}' AS name
        FROM regexp_matches(_text, '(\{"(\$results?)": ("(?:[^"\\]|\\.)*")\})', 'g') AS m(match)
    LOOP
        _of := _known -> _found.name;
        IF _of IS NULL THEN
            PERFORM asyncjobs.refuse('WorkflowError', format('%s takes what %s gives, and no job before it has that name.', _who, quote_ident(_found.name)),
                'Names are given by "name", and jobs take results of those that stand before them.');
        ELSIF (_found.kind = '$results') <> (_of -> 2)::boolean THEN
            PERFORM asyncjobs.refuse('WorkflowError', format('%s takes %s of %s, which is %s.', _who, _found.kind, quote_ident(_found.name),
                CASE WHEN (_of -> 2)::boolean THEN 'a group' ELSE 'one job' END), 'A job has a "$result", a group (of "payloads") has "$results".');
        END IF;
        taken := taken || _found.name;
        _text := replace(_text, _found.whole, CASE _found.kind WHEN '$result' THEN format('{"$result": %s}', _of -> 0)
            WHEN '$results' THEN CASE WHEN (_of -> 1)::integer < (_of -> 0)::integer THEN '[]' ELSE format('{"$results": [%s, %s]}', _of -> 0, _of -> 1) END END);
    END LOOP;
    IF jsonb_typeof(_text::jsonb) <> 'array' THEN
        PERFORM asyncjobs.refuse('WorkflowError', format('%s: its payloads are %s: give a list of them.', _who, asyncjobs.kind_of(_text::jsonb)),
            'Write "payload" for one.');
    END IF;
    payloads := ARRAY(SELECT p.value FROM jsonb_array_elements(_text::jsonb) WITH ORDINALITY AS p ORDER BY p.ordinality);
END $$;
