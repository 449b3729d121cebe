-- What a program declares when it opens (as `_runner`): a list of {"kind", "name", "values"}. The newest declaration counts; what an operator has set
-- stays. What grew is looked at again at once. Returns the names that others had declared otherwise.
CREATE FUNCTION asyncjobs.declare_limits(_limits jsonb, _runner bigint DEFAULT NULL) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _item jsonb;
    _was jsonb;
    _changed text[] := '{}';
BEGIN
    FOR _item IN
        SELECT u.item FROM jsonb_array_elements(_limits) AS u(item)
        WHERE u.item -> 'values' <> '{}'  -- a queue without a total
           OR EXISTS (SELECT FROM asyncjobs.limits AS l WHERE l.kind = u.item ->> 'kind' AND l.name = u.item ->> 'name')
        ORDER BY u.item ->> 'kind', u.item ->> 'name'
    LOOP
        INSERT INTO asyncjobs.limits (kind, name, declared) VALUES (_item ->> 'kind', _item ->> 'name', _item -> 'values')
        ON CONFLICT (kind, name) DO NOTHING;
        SELECT l.declared INTO _was FROM asyncjobs.limits AS l WHERE l.kind = _item ->> 'kind' AND l.name = _item ->> 'name' FOR UPDATE;
        IF _was <> _item -> 'values' THEN
            UPDATE asyncjobs.limits AS l SET declared = _item -> 'values', declared_at = asyncjobs.clock()
            WHERE l.kind = _item ->> 'kind' AND l.name = _item ->> 'name';
            _changed := _changed || (_item ->> 'name');
        END IF;
        PERFORM asyncjobs.apply_limit(_item ->> 'kind', _item ->> 'name');
    END LOOP;
    UPDATE asyncjobs.runners AS r SET limits = _limits WHERE r.id = _runner;
    RETURN _changed;
END $$;
