-- A job's history with one more entry, and without its oldest when it is full. What is no history (a stranger's hand) begins anew: a row
-- that no outcome could be written to would keep those beside it from being written, too. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.with_error(_errors jsonb, _entry jsonb, _most integer) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN pg_catalog.jsonb_typeof(_errors) <> 'array' THEN '[]'::jsonb || _entry
                  WHEN pg_catalog.jsonb_array_length(_errors) >= _most THEN (_errors - 0) || _entry
                  ELSE _errors || _entry END;
